//! What the start of a chain must be before the writer sees it: a pure rule over what the stream
//! has proven and the server's time.
//!
//! Nothing can go around a start that is not taken, so it is never refused by number: the stream
//! ends and says why. Not here: whether the chain has begun already (`core::delivery`, inside the
//! writer's transaction).

use leasewatch_core::evidence::chain::ChainStart;
use leasewatch_core::evidence::statement::{StatementKind, verify};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::Timestamp;
use leasewatch_proto::convert::ChainStartParts;
use leasewatch_proto::v1;

use super::check::{NodeFacts, accepted, of_log};

/// A start that only its chain can still turn away.
#[derive(Debug, Clone)]
pub struct CheckedStart {
    /// What it says.
    pub start: ChainStart,
    /// Its canonical bytes.
    pub statement: Vec<u8>,
    /// The node's signature over them.
    pub signature: [u8; 64],
}

/// # Errors
/// One sentence for the agent's log, without text from the node.
pub(super) fn start(
    node: &NodeFacts,
    wire: v1::ChainStart,
    now: Timestamp,
) -> Result<CheckedStart, String> {
    let parts = ChainStartParts::from_wire(wire).map_err(|error| error.to_string())?;
    let ChainStartParts { statement, signature } = parts;
    let start = ChainStart::from_statement(&statement).map_err(|error| error.to_string())?;
    verify(StatementKind::ChainStart, &statement, &signature, &node.public_key)
        .map_err(|_| "it is not signed by the node's key".to_owned())?;
    if start.node != node.id {
        return Err("it names another node".to_owned());
    }
    if start.chain != node.chain {
        return Err("it names another chain than the stream".to_owned());
    }
    let mut accepted = accepted(node, node.enrolled_at, now);
    if node.origin == Origin::Simulated {
        // A simulated recording began before its node was heard of, like a generator's log.
        accepted.start = of_log(now).start;
    }
    if start.at < accepted.start || accepted.end < start.at {
        let (from, to) = (accepted.start, accepted.end);
        return Err(format!("its time must lie between {from} and {to}"));
    }
    Ok(CheckedStart { start, statement, signature })
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use leasewatch_core::evidence::chain::ChainStartReason;
    use leasewatch_core::evidence::statement::sign;
    use leasewatch_core::id::{ChainId, KeyId, NodeId, Slug};

    use super::*;

    const ENROLLED: Timestamp = Timestamp(1_790_000_000_000);
    const NOW: Timestamp = Timestamp(1_790_000_600_000);

    fn facts() -> NodeFacts {
        let public_key = key().verifying_key();
        NodeFacts {
            id: KeyId::of_public_key(public_key.as_bytes()).first_node_id(),
            tenant: Slug::new("default").unwrap(),
            chain: ChainId([2; 16]),
            origin: Origin::Measured,
            enrolled_at: ENROLLED,
            public_key,
        }
    }

    fn key() -> SigningKey {
        SigningKey::from_bytes(&[1; 32])
    }

    fn honest() -> ChainStart {
        let NodeFacts { id: node, chain, .. } = facts();
        ChainStart { node, chain, at: NOW, reason: ChainStartReason::LostState }
    }

    fn signed(start: &ChainStart, key: &SigningKey) -> v1::ChainStart {
        let statement = start.statement();
        let signature = sign(StatementKind::ChainStart, &statement, key).to_vec();
        v1::ChainStart { statement, signature }
    }

    fn refusal(wire: v1::ChainStart) -> String {
        start(&facts(), wire, NOW).unwrap_err()
    }

    #[test]
    fn an_honest_start_is_taken_at_both_ends_of_its_time() {
        for at in [ENROLLED.plus_ms(-5_000), NOW.plus_ms(5_000)] {
            let checked = start(&facts(), signed(&ChainStart { at, ..honest() }, &key()), NOW);
            assert_eq!(checked.unwrap().start.at, at);
        }
        let imported = NodeFacts { origin: Origin::Imported, ..facts() };
        let old = ChainStart { at: Timestamp(1_600_000_000_000), ..honest() };
        assert!(start(&imported, signed(&old, &key()), NOW).is_ok());
    }

    #[test]
    fn forged_foreign_and_misdated_starts_are_told_why() {
        let changed = |change: fn(&mut ChainStart)| {
            let mut start = honest();
            change(&mut start);
            refusal(signed(&start, &key()))
        };
        assert!(changed(|start| start.node = NodeId([9; 16])).contains("another node"));
        assert!(changed(|start| start.chain = ChainId([9; 16])).contains("another chain"));
        assert!(changed(|start| start.at = NOW.plus_ms(5_001)).contains("between"));
        assert!(changed(|start| start.at = ENROLLED.plus_ms(-5_001)).contains("between"));
        let forged = signed(&honest(), &SigningKey::from_bytes(&[3; 32]));
        assert!(refusal(forged).contains("not signed"));
        // A signature over the same bytes as another kind of statement is none.
        let statement = honest().statement();
        let signature = sign(StatementKind::Drop, &statement, &key()).to_vec();
        assert!(refusal(v1::ChainStart { statement, signature }).contains("not signed"));
        let honest = signed(&honest(), &key());
        let short = v1::ChainStart { signature: vec![0; 63], ..honest.clone() };
        assert!(refusal(short).contains("signature"));
        let spaced = v1::ChainStart { statement: b"{ }".to_vec(), ..honest.clone() };
        assert!(!refusal(spaced).is_empty());
        let long = v1::ChainStart { statement: vec![b'{'; 1 << 20], ..honest };
        assert!(refusal(long).contains("bound"));
    }
}
