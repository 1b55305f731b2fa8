//! The process that delivers one message to one user, under the user's uid.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use barid::vfs::{Host as _, OsVfs};
use barid_auth::User;

use crate::config::ServerConfig;
use crate::delivery::{
    Delivered, Delivery, DeliveryError, DeliveryRequest, SpamCheck, SpooledMessage,
};
use crate::limits::LINK_MESSAGE_LEN_MAX;
use crate::server::MakeSpamCheck;
use crate::server::confine;
use crate::server::link::Link;
use crate::server::messages::{
    DeliveryOrderText, DeliveryReport, DeliveryResult, MessagePrelude, ToDelivery,
};
use crate::server::setup::handed_over;
use crate::server::system_calls;
use crate::server::worker::confine_to_user;

/// Delivers one message, and tells the result on the stream from which it came.
///
/// # Errors
/// Errors of the link and of the stream.
pub(in crate::server) fn run_deliver(link: Link, make_spam: MakeSpamCheck) -> io::Result<()> {
    confine::forget_core()?;
    let Some((ToDelivery::Order(order), text)) = link.receive()? else { return Ok(()) };
    let config = handed_over(&order.path, text)?;
    let Some((ToDelivery::Message, Some(stream))) = link.receive()? else { return Ok(()) };
    let stream = UnixStream::from(stream);
    let timeout = config.delivery.timeout;
    std::thread::Builder::new().name("limit".to_owned()).spawn(move || {
        // The supervisor does the same, unless it has been killed.
        OsVfs.sleep(timeout);
        std::process::exit(1);
    })?;
    let mut warnings = Vec::new();
    let result = match deliver(&config, &order, &stream, make_spam, &mut warnings) {
        Ok(Delivered::Stored { mailbox, notes, .. }) => DeliveryResult::Stored { mailbox, notes },
        Ok(Delivered::Duplicate) => DeliveryResult::Duplicate,
        Err(DeliveryError { kind, text }) => DeliveryResult::Failed { kind, text },
    };
    (&stream).write_all(&serde_json::to_vec(&DeliveryReport { result, warnings })?)
}

fn deliver(
    config: &ServerConfig,
    order: &DeliveryOrderText,
    mut stream: &UnixStream,
    make_spam: MakeSpamCheck,
    warnings: &mut Vec<String>,
) -> Result<Delivered, DeliveryError> {
    let user = order.user.user(&config.users.rules);
    let user = user.ok_or_else(|| DeliveryError::temporary("the user's name is not allowed"))?;
    let spam = config.delivery.spam.clone().map(make_spam);
    let word_list = word_list(config, &user)?;
    let mut warn = |text| {
        warnings.push(text);
        Ok(())
    };
    let options = confine_to_user(config, &user, word_list.as_deref(), &mut warn)?;
    system_calls::allow_network_and_files()?;
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > LINK_MESSAGE_LEN_MAX {
        return Err(DeliveryError::temporary("a prelude that is too long"));
    }
    let mut prelude = vec![0; len];
    stream.read_exact(&mut prelude)?;
    let prelude = serde_json::from_slice(&prelude).map_err(io::Error::from)?;
    let MessagePrelude { sender, recipient, len } = prelude;
    let (folder, len_max) = (options.spool_dir.clone(), config.limits.message_size);
    let mut message = SpooledMessage::new(Arc::new(OsVfs), folder, len_max);
    message.read_from(&mut stream.take(len))?;
    if message.len() != len {
        return Err(DeliveryError::temporary("the process with the message has ended"));
    }
    let delivery = Delivery {
        vfs: Arc::new(OsVfs),
        user: &user,
        options,
        settings: &config.delivery,
        spam: spam.as_deref().map(|spam| spam as &dyn SpamCheck),
    };
    delivery.deliver(&DeliveryRequest {
        message: &message,
        sender: Some(&sender),
        recipient: Some(&recipient),
        mailbox: None,
        detail: order.detail.as_deref(),
    })
}

/// Returns the folder of a word list that is not in the folders of the user.
fn word_list(config: &ServerConfig, user: &User) -> Result<Option<PathBuf>, DeliveryError> {
    let template = config.delivery.spam.as_ref().and_then(|spam| spam.wordlist.as_ref());
    let Some(template) = template else { return Ok(None) };
    let path = template.expand(&user.name, user.home.as_deref());
    let path = PathBuf::from(path.map_err(DeliveryError::temporary)?);
    Ok(Some(path.parent().unwrap_or(&path).to_owned()))
}
