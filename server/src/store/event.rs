//! Events, as the segments carried them.
//!
//! The body of a row is the event's own canonical object from the events block, so reading it
//! back runs the same strict checks as reading a segment.

use leasewatch_core::id::{ChainId, GpuUuid, Sequence};
use leasewatch_core::segment::{Block, Event, EventsBlock};
use leasewatch_core::time::{Period, Timestamp};

use super::chain::sequence_column;
use super::column::{Column, fitted};
use super::{NodeKey, StoreError, Tx};

const BODY: Column = Column("event", "body");

/// Version and kind of an events block with a list in it; the list follows as JSON.
const BLOCK_HEADER: [u8; 2] = [1, 3];

/// An event with its place in the node's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Whose it is.
    pub node: NodeKey,
    /// The event.
    pub event: Event,
    /// The segment that carried it.
    pub chain: ChainId,
    /// See `chain`.
    pub sequence: Sequence,
}

struct Row {
    tenant_id: i32,
    node_id: i32,
    chain_id: Vec<u8>,
    sequence: i64,
    body: String,
}

impl TryFrom<Row> for EventRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            node: NodeKey::new(row.tenant_id, row.node_id),
            event: from_json(&row.body, BODY)?,
            chain: ChainId(Column("event", "chain_id").array(&row.chain_id)?),
            sequence: Sequence(Column("event", "sequence").number(row.sequence)?),
        })
    }
}

/// Events to store, and the segment that carried them.
#[derive(Debug, Clone, Copy)]
pub struct NewEvents<'a> {
    /// Whose they are.
    pub node: NodeKey,
    /// The segment.
    pub chain: ChainId,
    /// See `chain`.
    pub sequence: Sequence,
    /// In their order within the segment.
    pub events: &'a [Event],
}

/// Stores the events of segments, of any nodes, in one statement. Scope: ingest.
///
/// # Errors
/// [`StoreError::NoPartition`] for a time that nobody ensured.
pub async fn insert(tx: &mut Tx, new: &[NewEvents<'_>]) -> Result<(), StoreError> {
    let each = || {
        let events = |new: &NewEvents<'_>| new.events.len();
        new.iter().flat_map(move |new| (0..events(new)).zip(new.events).map(move |e| (new, e)))
    };
    if each().next().is_none() {
        return Ok(());
    }
    let (tenants, nodes): (Vec<i32>, Vec<i32>) = each().map(|(new, _)| new.node.columns()).unzip();
    let chains: Vec<&[u8]> = each().map(|(new, _)| &new.chain.0[..]).collect();
    let sequences = each().map(|(new, _)| sequence_column(new.sequence));
    let at: Vec<i64> = each().map(|(_, (_, event))| event.at.0).collect();
    let ordinals = each().map(|(_, (ordinal, _))| fitted::<_, i32>(ordinal, "number of events"));
    let gpus: Vec<Option<&str>> =
        each().map(|(_, (_, event))| event.gpu.as_ref().map(GpuUuid::as_str)).collect();
    let kinds: Vec<&str> = each().map(|(_, (_, event))| event.kind.name()).collect();
    let bodies = each().map(|(_, (_, event))| to_json(event)).collect::<Result<Vec<_>, _>>()?;
    sqlx::query!(
        "insert into event (tenant_id, node_id, chain_id, sequence, at, ordinal, gpu_uuid, kind, body)
        select e.tenant_id, e.node_id, e.chain_id, e.sequence, e.at, e.ordinal, e.gpu_uuid, e.kind,
            e.body::json
        from unnest($1::int[], $2::int[], $3::bytea[], $4::bigint[], $5::bigint[], $6::int[],
            $7::text[], $8::text[], $9::text[])
            as e (tenant_id, node_id, chain_id, sequence, at, ordinal, gpu_uuid, kind, body)",
        &tenants,
        &nodes,
        &chains as &[&[u8]],
        &sequences.collect::<Result<Vec<_>, _>>()?,
        &at,
        &ordinals.collect::<Result<Vec<_>, _>>()?,
        &gpus as &[Option<&str>],
        &kinds as &[&str],
        &bodies
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// The first `limit` events of a node within `period`, an instant equal to its end included, by
/// time.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn of_node(
    tx: &mut Tx,
    key: NodeKey,
    period: Period,
    limit: u32,
) -> Result<Vec<EventRow>, StoreError> {
    let (tenant, node) = key.columns();
    sqlx::query_as!(
        Row,
        r#"select tenant_id, node_id, chain_id, sequence, body::text as "body!" from event
        where tenant_id = $1 and node_id = $2 and at >= $3 and at <= $4
        order by at, chain_id, sequence, ordinal limit $5"#,
        tenant,
        node,
        period.start.0,
        period.end.0,
        i64::from(limit)
    )
    .fetch_all(tx.connection())
    .await?
    .into_iter()
    .map(TryInto::try_into)
    .collect()
}

/// The last `limit` events of a node before `at`, by time: the state that it was in.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn before(
    tx: &mut Tx,
    key: NodeKey,
    at: Timestamp,
    limit: u32,
) -> Result<Vec<EventRow>, StoreError> {
    let (tenant, node) = key.columns();
    let mut rows = sqlx::query_as!(
        Row,
        r#"select tenant_id, node_id, chain_id, sequence, body::text as "body!" from event
        where tenant_id = $1 and node_id = $2 and at < $3
        order by at desc, chain_id desc, sequence desc, ordinal desc limit $4"#,
        tenant,
        node,
        at.0,
        i64::from(limit)
    )
    .fetch_all(tx.connection())
    .await?;
    rows.reverse();
    rows.into_iter().map(TryInto::try_into).collect()
}

/// The last `limit` events of these kinds before `at`, by time: the state that the node was in.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn before_of_kinds(
    tx: &mut Tx,
    key: NodeKey,
    at: Timestamp,
    kinds: &[&str],
    limit: u32,
) -> Result<Vec<EventRow>, StoreError> {
    let (tenant, node) = key.columns();
    let mut rows = sqlx::query_as!(
        Row,
        r#"select tenant_id, node_id, chain_id, sequence, body::text as "body!" from event
        where tenant_id = $1 and node_id = $2 and at < $3 and kind = any ($5)
        order by at desc, chain_id desc, sequence desc, ordinal desc limit $4"#,
        tenant,
        node,
        at.0,
        i64::from(limit),
        kinds as &[&str]
    )
    .fetch_all(tx.connection())
    .await?;
    rows.reverse();
    rows.into_iter().map(TryInto::try_into).collect()
}

/// The last `limit` events of these kinds and about these GPUs before `at`, by time.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn before_of_gpus(
    tx: &mut Tx,
    key: NodeKey,
    at: Timestamp,
    (kinds, gpus): (&[&str], &[GpuUuid]),
    limit: u32,
) -> Result<Vec<EventRow>, StoreError> {
    let (tenant, node) = key.columns();
    let gpus: Vec<&str> = gpus.iter().map(GpuUuid::as_str).collect();
    let mut rows = sqlx::query_as!(
        Row,
        r#"select tenant_id, node_id, chain_id, sequence, body::text as "body!" from event
        where tenant_id = $1 and node_id = $2 and at < $3 and kind = any ($5)
            and gpu_uuid = any ($6)
        order by at desc, chain_id desc, sequence desc, ordinal desc limit $4"#,
        tenant,
        node,
        at.0,
        i64::from(limit),
        kinds as &[&str],
        &gpus as &[&str]
    )
    .fetch_all(tx.connection())
    .await?;
    rows.reverse();
    rows.into_iter().map(TryInto::try_into).collect()
}

/// The last event of one kind, by the kind's name.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn last_of_kind(
    tx: &mut Tx,
    key: NodeKey,
    kind: &str,
) -> Result<Option<EventRow>, StoreError> {
    let (tenant, node) = key.columns();
    let row = sqlx::query_as!(
        Row,
        r#"select tenant_id, node_id, chain_id, sequence, body::text as "body!" from event
        where tenant_id = $1 and node_id = $2 and kind = $3
        order by at desc, chain_id desc, sequence desc, ordinal desc limit 1"#,
        tenant,
        node,
        kind
    );
    row.fetch_optional(tx.connection()).await?.map(TryInto::try_into).transpose()
}

/// The latest `limit` events of all nodes that the scope may see, the newest first.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn recent(tx: &mut Tx, limit: u32) -> Result<Vec<EventRow>, StoreError> {
    sqlx::query_as!(
        Row,
        r#"select tenant_id, node_id, chain_id, sequence, body::text as "body!" from event
        order by at desc, tenant_id, node_id, chain_id, sequence desc, ordinal desc limit $1"#,
        i64::from(limit)
    )
    .fetch_all(tx.connection())
    .await?
    .into_iter()
    .map(TryInto::try_into)
    .collect()
}

/// The canonical object of one event.
pub(super) fn to_json(event: &Event) -> Result<String, StoreError> {
    let refused = || StoreError::OutOfRange { what: "an event" };
    let block = Block::Events(EventsBlock { events: vec![event.clone()] });
    let bytes = block.encode().map_err(|_| refused())?;
    let list = bytes.strip_prefix(&BLOCK_HEADER).ok_or_else(refused)?;
    let list = std::str::from_utf8(list).map_err(|_| refused())?;
    let object = list.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    object.map(str::to_owned).ok_or_else(refused)
}

pub(super) fn from_json(object: &str, column: Column) -> Result<Event, StoreError> {
    let bytes = [&BLOCK_HEADER[..], b"[", object.as_bytes(), b"]"].concat();
    match Block::decode(&bytes).map_err(|error| column.wrong(error))? {
        Block::Events(EventsBlock { mut events }) if events.len() == 1 => Ok(events.remove(0)),
        _ => Err(column.wrong("not one event")),
    }
}

/// How many events of a node are stored.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn count(tx: &mut Tx, key: NodeKey) -> Result<u64, StoreError> {
    let (tenant, node) = key.columns();
    let count = sqlx::query_scalar!(
        r#"select count(*) as "count!" from event where tenant_id = $1 and node_id = $2"#,
        tenant,
        node
    );
    fitted(count.fetch_one(tx.connection()).await?, "number of events")
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasewatch_core::segment::{EventKind, StopReason};

    #[test]
    fn an_event_and_its_object_name_each_other() {
        let gpu = GpuUuid::new("GPU-1").ok();
        let kinds = [
            (gpu, EventKind::Xid { code: 79 }),
            (None, EventKind::Goodbye { reason: StopReason::Upgrade }),
            (None, EventKind::ReadingsDropped { metric: "a \"b\" 長".into(), count: 3 }),
        ];
        for (gpu, kind) in kinds {
            let event = Event::new(Timestamp(1_785_000_000_000), gpu, kind);
            let json = to_json(&event).unwrap();
            assert!(json.starts_with('{') && json.ends_with('}'), "{json}");
            assert_eq!(from_json(&json, BODY).unwrap(), event);
        }
    }

    #[test]
    fn another_spelling_names_the_column() {
        let error = from_json("{ }", BODY).unwrap_err().to_string();
        assert!(error.contains("table event, column body"), "{error}");
    }
}
