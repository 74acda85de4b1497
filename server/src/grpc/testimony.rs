//! Signing what was done about a key, in the transaction that does it.

use leasewatch_core::evidence::identity::{
    Admission, Enrollment, Revocation, RevocationReason, Rotation,
};
use leasewatch_core::evidence::statement::StatementKind;
use leasewatch_core::id::KeyId;
use leasewatch_core::time::Timestamp;

use crate::identity::Identity;
use crate::store::enrollment::{Redeemed, TakeOver};
use crate::store::identity_statement::{self, StatementRow};
use crate::store::node::NodeRow;
use crate::store::{StoreError, Tx};

/// Who signs, about which key, and when.
pub(super) struct Testimony<'a> {
    pub(super) identity: &'a Identity,
    pub(super) key: [u8; 32],
    pub(super) at: Timestamp,
}

impl Testimony<'_> {
    /// What a token did.
    pub(super) async fn of_token(&self, tx: &mut Tx, done: &Redeemed) -> Result<(), StoreError> {
        let Some(token) = done.token else { return Ok(()) };
        let number = i64::from(token.number());
        match &done.took_over {
            None => self.of_enrollment(tx, &done.node, Admission::Token(number)).await,
            Some(took_over) => self.of_take_over(tx, (&done.node, number), took_over).await,
        }
    }

    /// A node that joined.
    pub(super) async fn of_enrollment(
        &self,
        tx: &mut Tx,
        node: &NodeRow,
        admission: Admission,
    ) -> Result<(), StoreError> {
        let statement = Enrollment {
            key: self.key,
            tenant: node.tenant.clone(),
            provider: node.provider.clone(),
            name: node.name.clone(),
            origin: node.origin,
            at: self.at,
            admission,
        };
        self.add(tx, (node, &self.key), (StatementKind::Enrollment, statement.statement())).await
    }

    async fn of_take_over(
        &self,
        tx: &mut Tx,
        (node, token): (&NodeRow, i64),
        took_over: &TakeOver,
    ) -> Result<(), StoreError> {
        for key in &took_over.revoked {
            let reason = RevocationReason::Replaced;
            let revocation = Revocation { node: node.id, key: *key, at: self.at, reason, by: None };
            let statement = (StatementKind::Revocation, revocation.statement());
            self.add(tx, (node, key), statement).await?;
        }
        let rotation =
            Rotation { node: node.id, old: took_over.old, new: self.key, at: self.at, token };
        self.add(tx, (node, &self.key), (StatementKind::Rotation, rotation.statement())).await
    }

    async fn add(
        &self,
        tx: &mut Tx,
        (node, key): (&NodeRow, &[u8; 32]),
        (kind, statement): (StatementKind, Vec<u8>),
    ) -> Result<(), StoreError> {
        let row = StatementRow {
            kind,
            key_id: KeyId::of_public_key(key),
            at: self.at,
            signed: self.identity.sign_statement(kind, statement),
            signer: self.identity.public_key(),
        };
        identity_statement::add(tx, node.key, &row).await
    }
}
