//! Bills: read by column mapping, and compared with what terms, sessions and measured time say.
//!
//! Not here: what a lease should be billed (`billed`), and when it was down (`availability`).

mod compare;
mod date;
mod read;

pub use compare::{BilledLease, Comparison, Difference, DifferenceKind, compare};
pub use date::DateOrder;
pub use read::{
    BillColumns, BillFault, BillLine, BillRowFault, Quantity, QuantityUnit, ReadBill, RefusedLine,
    read,
};
