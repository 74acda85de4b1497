//! Labels of nodes, that costs can be grouped by. Scope of what writes: the tenant. Labels of a
//! lease stand in its terms.

use std::collections::BTreeMap;

use leasewatch_core::lease::Label;

use super::column::Column;
use super::{NodeKey, StoreError, Tx};

/// Names and values of a node's labels.
pub type Labels = BTreeMap<Label, Label>;

fn label(column: &'static str, text: &str) -> Result<Label, StoreError> {
    Label::new(text).ok_or_else(|| Column("node_label", column).wrong("is no label"))
}

/// Labels of the nodes that the scope may see and that have any.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx) -> Result<BTreeMap<NodeKey, Labels>, StoreError> {
    let rows = sqlx::query!("select tenant_id, node_id, name, value from node_label");
    let mut all: BTreeMap<NodeKey, Labels> = BTreeMap::new();
    for row in rows.fetch_all(tx.connection()).await? {
        let of_node = all.entry(NodeKey::new(row.tenant_id, row.node_id)).or_default();
        of_node.insert(label("name", &row.name)?, label("value", &row.value)?);
    }
    Ok(all)
}

/// Labels of a node.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn of_node(tx: &mut Tx, node: NodeKey) -> Result<Labels, StoreError> {
    Ok(list(tx).await?.remove(&node).unwrap_or_default())
}

/// Gives a node these labels and no others.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn set(tx: &mut Tx, node: NodeKey, labels: &Labels) -> Result<(), StoreError> {
    let (tenant, node) = node.columns();
    let (names, values): (Vec<String>, Vec<String>) = labels
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_str().to_owned()))
        .unzip();
    sqlx::query!(
        "delete from node_label where tenant_id = $1 and node_id = $2 and name <> all ($3)",
        tenant,
        node,
        &names
    )
    .execute(tx.connection())
    .await?;
    sqlx::query!(
        "insert into node_label (tenant_id, node_id, name, value)
        select $1, $2, l.name, l.value from unnest($3::text[], $4::text[]) as l (name, value)
        on conflict (tenant_id, node_id, name) do update set value = excluded.value",
        tenant,
        node,
        &names,
        &values
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}
