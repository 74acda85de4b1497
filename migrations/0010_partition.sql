set local role leasewatch_owner;

alter table slot
    add gpu_instance smallint check (gpu_instance between 0 and 255),
    add compute_instance smallint check (compute_instance between 0 and 255),
    add check ((gpu_instance is null) = (compute_instance is null)),
    drop constraint slot_tenant_id_node_id_bus_id_key,
    add unique nulls not distinct (tenant_id, node_id, bus_id, gpu_instance, compute_instance);
comment on column slot.bus_id is 'PCI bus id as NVML prints it; of a slice of a GPU, that of the GPU';
comment on column slot.gpu_instance is 'NVML''s id, for a slot of a MIG slice; null for a whole GPU';
comment on column slot.compute_instance is 'see gpu_instance';

alter table gpu
    add parent_uuid text,
    add slices smallint check (slices between 1 and slices_of),
    add slices_of smallint check (slices_of between 1 and 255),
    add check (num_nulls(parent_uuid, slices, slices_of) in (0, 3));
comment on column gpu.uuid is 'NVML UUID, of a GPU or of a MIG slice';
comment on column gpu.parent_uuid is 'the GPU that a slice is a part of; null for a whole GPU';
comment on column gpu.slices is 'compute slices of a slice, of slices_of that its GPU has';

-- A slice's hour lies within its GPU's: whoever adds hours up takes `parent_uuid is null`, or not.
create or replace view hour_v with (security_invoker = true) as
select h.tenant_id, t.slug as tenant, p.slug as provider, encode(n.public_id, 'hex') as node,
    n.name as node_name, h.slot_no, h.gpu_uuid,
    to_timestamp(h.hour::bigint * 3600) as hour_start, h.revision,
    case h.state when 2 then 'sealed' else 'provisional' end as state, h.origin,
    h.enrolled_ms, h.measured_ms,
    case when h.measured_ms > 0 then h.busy_pct_ms::numeric / h.measured_ms end as busy_pct,
    g.parent_uuid, g.slices, g.slices_of
from hour_record h
join node n on n.tenant_id = h.tenant_id and n.node_id = h.node_id
join tenant t on t.tenant_id = h.tenant_id
join provider p on p.provider_id = n.provider_id
left join gpu g on g.tenant_id = h.tenant_id and g.node_id = h.node_id and g.uuid = h.gpu_uuid;
comment on column hour_v.parent_uuid is 'null for a whole GPU; a slice stands beside its GPU';

reset role;
