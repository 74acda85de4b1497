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

reset role;
