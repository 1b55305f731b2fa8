//! Decoding bytes as any message between the processes of a server, for fuzzing.

use barid_auth::NameRules;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::messages::{
    DeliveryReport, FromAuth, FromFront, FromLmtp, FromLogin, FromWatcher, FromWorker,
    MessagePrelude, PamAnswer, PamQuestion, Prelude, RefusalCode, ToAuth, ToDelivery, ToFront,
    ToLmtp, ToLogin, ToWatcher, ToWorker, WatchAnswer, WatchOrder, mechanisms,
};

/// A message between the processes of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedMessage {
    /// Name of its kind.
    pub kind: &'static str,
    /// Its encoding.
    pub encoded: Vec<u8>,
}

/// Returns the messages that bytes are: a process expects one kind, and the other one may be in the
/// hands of an attacker. What the receiver does with names and channels is done, too.
pub fn decode_as_any_message(bytes: &[u8]) -> Vec<DecodedMessage> {
    let mut found = Vec::new();
    decode::<ToFront>("ToFront", bytes, &mut found);
    decode::<FromFront>("FromFront", bytes, &mut found);
    decode::<ToAuth>("ToAuth", bytes, &mut found);
    decode::<FromAuth>("FromAuth", bytes, &mut found);
    decode::<FromLogin>("FromLogin", bytes, &mut found);
    decode::<ToWorker>("ToWorker", bytes, &mut found);
    decode::<FromWorker>("FromWorker", bytes, &mut found);
    decode::<Prelude>("Prelude", bytes, &mut found);
    decode::<PamQuestion>("PamQuestion", bytes, &mut found);
    decode::<PamAnswer>("PamAnswer", bytes, &mut found);
    decode::<ToLogin>("ToLogin", bytes, &mut found);
    decode::<ToLmtp>("ToLmtp", bytes, &mut found);
    decode::<FromLmtp>("FromLmtp", bytes, &mut found);
    decode::<ToDelivery>("ToDelivery", bytes, &mut found);
    decode::<MessagePrelude>("MessagePrelude", bytes, &mut found);
    decode::<DeliveryReport>("DeliveryReport", bytes, &mut found);
    decode::<ToWatcher>("ToWatcher", bytes, &mut found);
    decode::<FromWatcher>("FromWatcher", bytes, &mut found);
    decode::<WatchOrder>("WatchOrder", bytes, &mut found);
    decode::<WatchAnswer>("WatchAnswer", bytes, &mut found);
    use_parts(bytes);
    found
}

fn decode<M: Serialize + DeserializeOwned>(
    kind: &'static str,
    bytes: &[u8],
    found: &mut Vec<DecodedMessage>,
) {
    let Ok(message) = serde_json::from_slice::<M>(bytes) else { return };
    // What was decoded can be encoded: it has no other keys than texts.
    let encoded = serde_json::to_vec(&message).unwrap_or_default();
    found.push(DecodedMessage { kind, encoded });
}

/// Converts the parts of messages as their receivers do.
fn use_parts(bytes: &[u8]) {
    let rules = NameRules::default();
    match serde_json::from_slice(bytes) {
        Ok(FromAuth::Verified(verified)) => {
            let _ = (verified.user.user(&rules), RefusalCode::of(&verified.login));
        }
        Ok(FromAuth::Found { user: Some(user), .. }) => drop(user.user(&rules)),
        _ => {}
    }
    match serde_json::from_slice(bytes) {
        Ok(ToLogin::Start { channel, mechanism, .. }) => {
            let _ = (channel.channel(), mechanisms(&[mechanism]));
        }
        Ok(ToLogin::Offered { channel, .. }) => drop(channel.channel()),
        _ => {}
    }
    if let Ok(FromLogin::Offered { mechanisms: names, .. }) = serde_json::from_slice(bytes) {
        drop(mechanisms(&names));
    }
}
