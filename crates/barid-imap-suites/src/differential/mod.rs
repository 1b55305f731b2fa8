//! The same random commands to two servers over the same mail: whatever a client can rely on must
//! be equal.

mod compare;
mod generate;
mod minimise;
mod normal;
mod report;
mod run;
mod side;

pub use compare::Difference;
pub use generate::CommandScript;
pub use report::{DifferentialFailure, DifferentialReport};
pub use run::{DifferentialOptions, Explain, differential};
