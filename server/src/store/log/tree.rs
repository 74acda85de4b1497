//! The hashes of a log's tree: adding leaves, and reading those that a root or a proof needs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use leasewatch_core::evidence::log::tree::{
    CompactRange, Leaves, Subtree, TILE_HASHES, Tile, cover, perfect,
};
use leasewatch_core::id::Hash;

use super::LogKey;
use crate::store::column::{Column, fitted};
use crate::store::{StoreError, Tx};

const HASH: Column = Column("log_leaf", "hash");
/// Tiles of one query: 2 MiB.
const TILES_AT_ONCE: usize = 256;

/// Adds leaves behind the first `size` ones, and puts what fills tiles into them. Scope: worker.
///
/// # Errors
/// [`StoreError::Constraint`] when somebody else added leaves meanwhile.
pub async fn append(
    tx: &mut Tx,
    key: LogKey,
    size: u64,
    leaves: &[Hash],
) -> Result<(), StoreError> {
    let tile = u64::try_from(TILE_HASHES).unwrap_or(u64::MAX);
    let (mut level, mut from, mut new) = (0_u8, size, leaves.to_vec());
    while !new.is_empty() {
        insert(tx, key, (level, from), &new).await?;
        let to = from + u64::try_from(new.len()).unwrap_or(u64::MAX);
        new = Vec::new();
        for place in from / tile..to / tile {
            let folded = fold(tx, key, Tile { level, index: place }).await?;
            new.push(perfect(&folded).ok_or_else(|| HASH.wrong("a tile is not full"))?);
        }
        (level, from) = (level + 1, from / tile);
    }
    Ok(())
}

async fn insert(
    tx: &mut Tx,
    key: LogKey,
    (level, from): (u8, u64),
    hashes: &[Hash],
) -> Result<(), StoreError> {
    let places = (from..).take(hashes.len());
    let places: Result<Vec<i64>, _> =
        places.map(|place| fitted(place, "place of a leaf")).collect();
    let hashes: Vec<&[u8]> = hashes.iter().map(|hash| &hash.0[..]).collect();
    sqlx::query!(
        "insert into log_leaf (tenant_id, log_id, level, place, hash)
        select $1, $2, $3, l.* from unnest($4::bigint[], $5::bytea[]) as l",
        key.tenant,
        key.log,
        i16::from(level),
        &places?,
        &hashes as &[&[u8]]
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

async fn fold(tx: &mut Tx, key: LogKey, tile: Tile) -> Result<Vec<Hash>, StoreError> {
    let folded = sqlx::query_scalar!(
        r#"select leasewatch_fold_tile($1, $2, $3, $4) as "hashes!""#,
        key.tenant,
        key.log,
        i32::from(tile.level),
        fitted::<_, i64>(tile.index, "place of a tile")?
    );
    split(Column("log_tile", "hashes"), &folded.fetch_one(tx.connection()).await?)
}

/// How many leaves a log has, as its hashes say.
async fn size(tx: &mut Tx, key: LogKey) -> Result<u64, StoreError> {
    let size = sqlx::query_scalar!(
        r#"select coalesce(
            (select max(place) + 1 from log_leaf where tenant_id = $1 and log_id = $2 and level = 0),
            (select (max(place) + 1) * 256 from log_tile where tenant_id = $1 and log_id = $2 and level = 0),
            0) as "size!""#,
        key.tenant,
        key.log
    );
    Column("log_leaf", "place").number(size.fetch_one(tx.connection()).await?)
}

/// The whole of a log, to add to.
///
/// # Errors
/// [`StoreError::Inconsistent`] when hashes are missing.
pub async fn range(tx: &mut Tx, key: LogKey) -> Result<CompactRange, StoreError> {
    let whole = Leaves { from: 0, to: size(tx, key).await? };
    let found = hashes(tx, key, &cover(whole)).await?;
    CompactRange::of_hashes(whole, &found).ok_or_else(|| HASH.wrong("hashes are missing"))
}

/// The hashes of perfect subtrees, in their order: what roots and proofs are made of.
///
/// # Errors
/// [`StoreError::Inconsistent`] for one that the log does not have, or not whole.
pub async fn hashes(
    tx: &mut Tx,
    key: LogKey,
    subtrees: &[Subtree],
) -> Result<Vec<Hash>, StoreError> {
    let mut tiles: BTreeMap<Tile, Vec<Hash>> = BTreeMap::new();
    for subtree in subtrees {
        let (tile, _) = subtree.tile();
        if let Entry::Vacant(place) = tiles.entry(tile) {
            place.insert(one_tile(tx, key, tile).await?);
        }
    }
    let hash = |subtree: &Subtree| {
        let (tile, places) = subtree.tile();
        let found = tiles.get(&tile).and_then(|hashes| hashes.get(places)).and_then(perfect);
        found.ok_or_else(|| HASH.wrong(format!("level {} has a hole", tile.level)))
    };
    subtrees.iter().map(hash).collect()
}

/// The hashes of a tile: 256, or those that there are.
async fn one_tile(tx: &mut Tx, key: LogKey, tile: Tile) -> Result<Vec<Hash>, StoreError> {
    let place = fitted::<_, i64>(tile.index, "place of a tile")?;
    let level = i16::from(tile.level);
    let full = sqlx::query_scalar!(
        "select hashes from log_tile
        where tenant_id = $1 and log_id = $2 and level = $3 and place = $4",
        key.tenant,
        key.log,
        level,
        place
    );
    if let Some(full) = full.fetch_optional(tx.connection()).await? {
        return split(Column("log_tile", "hashes"), &full);
    }
    let loose = sqlx::query!(
        "select place, hash from log_leaf where tenant_id = $1 and log_id = $2 and level = $3
            and place >= $4::bigint * 256 and place < ($4::bigint + 1) * 256 order by place",
        key.tenant,
        key.log,
        level,
        place
    );
    let loose = loose.fetch_all(tx.connection()).await?;
    // A hole ends it: what is behind would stand in the wrong place.
    let whole = loose.iter().zip(place * 256..).take_while(|(row, at)| row.place == *at);
    whole.map(|(row, _)| HASH.array(&row.hash).map(Hash)).collect()
}

/// Hands over every leaf of the log from `from` to before `to`, with its number, in order.
///
/// # Errors
/// [`StoreError::Inconsistent`] when some are missing, and those of `take`.
pub async fn leaves<E: From<StoreError>>(
    tx: &mut Tx,
    key: LogKey,
    (from, to): (u64, u64),
    mut take: impl FnMut(u64, Hash) -> Result<(), E>,
) -> Result<(), E> {
    let per_tile = u64::try_from(TILE_HASHES).unwrap_or(u64::MAX);
    let at_once = u64::try_from(TILES_AT_ONCE).unwrap_or(u64::MAX);
    let (mut at, last) = (from / per_tile, to.div_ceil(per_tile));
    while at < last {
        let end = (at + at_once).min(last);
        for (place, hashes) in level_0(tx, key, (at, end)).await? {
            for (number, hash) in (place * per_tile..).zip(hashes) {
                if (from..to).contains(&number) {
                    take(number, hash)?;
                }
            }
        }
        at = end;
    }
    Ok(())
}

/// Tiles of leaves, the last one perhaps not full.
async fn level_0(
    tx: &mut Tx,
    key: LogKey,
    (from, to): (u64, u64),
) -> Result<Vec<(u64, Vec<Hash>)>, StoreError> {
    let rows = sqlx::query!(
        "select place, hashes from log_tile where tenant_id = $1 and log_id = $2 and level = 0
            and place >= $3 and place < $4 order by place",
        key.tenant,
        key.log,
        fitted::<_, i64>(from, "place of a tile")?,
        fitted::<_, i64>(to, "place of a tile")?
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    let column = Column("log_tile", "hashes");
    let mut tiles = Vec::with_capacity(rows.len() + 1);
    for (row, place) in rows.iter().zip(from..) {
        if Column("log_tile", "place").number::<_, u64>(row.place)? != place {
            return Err(column.wrong(format!("tile {place} is missing")));
        }
        tiles.push((place, split(column, &row.hashes)?));
    }
    let next = from + u64::try_from(tiles.len()).unwrap_or(u64::MAX);
    if next < to {
        tiles.push((next, one_tile(tx, key, Tile { level: 0, index: next }).await?));
        if next + 1 < to {
            return Err(column.wrong(format!("tile {} is missing", next + 1)));
        }
    }
    Ok(tiles)
}

pub(super) fn split(column: Column, bytes: &[u8]) -> Result<Vec<Hash>, StoreError> {
    bytes.chunks(32).map(|hash| column.array(hash).map(Hash)).collect()
}
