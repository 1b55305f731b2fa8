//! Delivery: a message that somebody hands over, and the mailbox of a user.
//!
//! [`SpooledMessage`] takes a message of any size. [`Delivery::deliver`] chooses its mailbox by the
//! spam filter and the rules of the configuration, and stores it durably. `docs/delivery.md`
//! describes what users see.

mod duplicates;
mod error;
mod header;
mod order;
mod recipient;
mod remembered;
mod rules;
mod spool;
mod store;

pub use self::error::{DeliveryError, DeliveryErrorKind};
pub use self::order::{DeliveryEnvelope, DeliveryOrder, DeliveryWishes};
pub use self::recipient::{Recipient, Recipients};
pub use self::remembered::{
    RememberedDelivery, remember_delivery, remembered_delivery, sealed_deliveries,
};
pub use self::spool::{SpoolError, SpooledMessage};
pub use self::store::{Delivered, Delivery, DeliveryRequest, SpamCheck};
