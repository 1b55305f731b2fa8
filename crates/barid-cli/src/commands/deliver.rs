//! `barid deliver`: stores a message from standard input in the mailbox of a user.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::vfs::{OsVfs, Vfs};
use barid_serve::config::{DeliverySettings, MailLocation, ServerConfig, SpamSettings, parse_time};
use barid_serve::delivery::{
    Delivered, Delivery, DeliveryEnvelope, DeliveryError, DeliveryErrorKind, DeliveryOrder,
    DeliveryRequest, DeliveryWishes, Recipient, Recipients, SpamCheck, SpooledMessage,
};
use barid_serve::mail::UserOptions;
use barid_serve::{NameRules, User, create_user_folders, system_user};
use barid_spam::bayes::{Profile, Status};
use barid_spam::{Filter, SpamOptions};
use clap::{Args, ValueHint};

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::escape::visible;

const EXAMPLES: &str = "\
Examples:
  barid deliver < message.eml                      into ~/Maildir
  barid deliver --mail mbox:~/mail --mailbox Lists.rust
  barid deliver --spam --duplicates '7 days'       spam into Junk, and nothing twice
  barid deliver --config /etc/barid/barid.toml --user ann@example.org

  Postfix, main.cf:   mailbox_command = barid deliver
  procmail:           | barid deliver --mailbox Lists
  getmail:            type = MDA_external, path = /usr/bin/barid, arguments = (\"deliver\",)
  fetchmail:          mda \"barid deliver\"

Exit status, that of sysexits.h: 0 the message is safe on the disk, or had been delivered before;
75 try again later; 67 no such user; 73 the mailbox is full, or the message too large; 65 not a
message; 77 not allowed.";

/// Store a message from standard input in the mailbox of a user
///
/// The program for mail servers and mail fetchers that deliver by a command. The message is durable
/// when it ends with 0. Without --config it delivers to the user who runs it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DeliverArgs {
    /// Read users, mail and rules from a configuration file of the server
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Deliver to this user, or to the user of this address; needs --config for other users
    #[arg(short = 'd', long, value_name = "NAME")]
    user: Option<String>,
    /// Location of the mailboxes: PATH or FORMAT:PATH; ~/Maildir by default
    #[arg(long, value_name = "LOCATION", conflicts_with = "config")]
    mail: Option<String>,
    /// Deliver to this mailbox, whatever the rules say
    #[arg(short = 'm', long, value_name = "NAME")]
    mailbox: Option<String>,
    /// Envelope sender, for Return-Path; by default that of the message
    #[arg(short = 'f', long, value_name = "ADDRESS")]
    sender: Option<String>,
    /// Address to which the message was sent, for Delivered-To
    #[arg(short = 'a', long, value_name = "ADDRESS")]
    recipient: Option<String>,
    /// Deliver spam to the mailbox Junk, as the spam filter classifies it
    #[arg(long)]
    spam: bool,
    /// Drop a message with the Message-ID of one that was delivered within this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duplicates: Option<std::time::Duration>,
    /// Read an order before the message, as the server writes it
    #[arg(long, hide = true, exclusive = true)]
    order: bool,
}

/// Delivers the message; every result is an exit code, which a mail server understands.
pub(crate) fn run(context: &mut Context, args: &DeliverArgs) -> anyhow::Result<Outcome> {
    let result = catch_unwind(AssertUnwindSafe(|| deliver(context, args)));
    let result = result.unwrap_or_else(|_| Err(DeliveryError::temporary("a bug of this program")));
    match result {
        Ok(Delivered::Stored { notes, .. }) => {
            notes.iter().for_each(|note| context.warn(note));
            Ok(Outcome::Done)
        }
        Ok(Delivered::Duplicate) => {
            context.detail("dropped: it was delivered before");
            Ok(Outcome::Done)
        }
        Err(error) => {
            context.error_line("error", &visible(error.text.as_bytes()));
            Ok(Outcome::Code(error.exit_code()))
        }
    }
}

/// The user of a delivery, and his mail.
struct Addressee {
    config: ServerConfig,
    user: User,
    options: UserOptions,
    envelope: DeliveryEnvelope,
    wishes: DeliveryWishes,
    /// The size of the message in bytes, if it is known before.
    message_len: Option<u64>,
}

fn deliver(context: &Context, args: &DeliverArgs) -> Result<Delivered, DeliveryError> {
    let mut stdin = io::stdin().lock();
    let addressee = match (args.order, &args.config) {
        (true, _) => of_order(DeliveryOrder::decode(&mut stdin)?)?,
        (false, Some(path)) => {
            let loaded = ServerConfig::load_with_text(&OsVfs, path);
            let (config, text) = loaded.map_err(DeliveryError::temporary)?;
            let found = Recipients::new(&config, Arc::new(OsVfs)).find(&wanted(args)?)?;
            if rustix::process::geteuid().is_root() {
                return as_owner(args, (config, text), found, &mut stdin);
            }
            of_config(args, config, found)?
        }
        (false, None) => of_this_user(context, args)?,
    };
    let Addressee { config, user, options, envelope, wishes, message_len } = addressee;
    let limit = config.limits.message_size;
    let message = spool(&options.spool_dir, limit, &mut stdin)?;
    if message_len.is_some_and(|len| message.len() != len) {
        return Err(DeliveryError::temporary("the process with the message has ended"));
    }
    let settings = settings_of(&config, wishes);
    let filter = settings.spam.clone().map(OwnFilter);
    let request = DeliveryRequest {
        message: &message,
        sender: envelope.sender.as_deref(),
        recipient: envelope.recipient.as_deref(),
        mailbox: envelope.mailbox.as_deref(),
        detail: envelope.detail.as_deref(),
    };
    let spam = filter.as_ref().map(|filter| filter as &dyn SpamCheck);
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    Delivery { vfs, user: &user, options, settings: &settings, spam }.deliver(&request)
}

/// Reads the message from standard input.
fn spool(
    folder: &Path,
    limit: u64,
    stdin: &mut dyn io::Read,
) -> Result<SpooledMessage, DeliveryError> {
    let mut message = SpooledMessage::new(Arc::new(OsVfs), folder.to_owned(), limit);
    message.read_from(stdin)?;
    Ok(message)
}

/// Returns what the command line asks for.
fn wishes(args: &DeliverArgs) -> DeliveryWishes {
    DeliveryWishes { spam: args.spam, duplicates: args.duplicates }
}

fn settings_of(config: &ServerConfig, wishes: DeliveryWishes) -> DeliverySettings {
    let mut settings = config.delivery.clone();
    if wishes.spam && settings.spam.is_none() {
        let mailbox = "Junk".to_owned();
        settings.spam = Some(SpamSettings { mailbox, profile: None, wordlist: None });
    }
    settings.duplicates = wishes.duplicates.or(settings.duplicates);
    settings
}

fn of_order(order: DeliveryOrder) -> Result<Addressee, DeliveryError> {
    let config = ServerConfig::parse(&order.config_path, &order.config);
    let config = config.map_err(DeliveryError::temporary)?;
    let user = order.user.clone();
    let options = config.user_options(&user)?;
    let DeliveryOrder { envelope, wishes, message_len, .. } = order;
    let message_len = Some(message_len);
    Ok(Addressee { config, user, options, envelope, wishes, message_len })
}

/// Returns what the command line says of the way of the message.
fn envelope(args: &DeliverArgs, detail: Option<String>) -> DeliveryEnvelope {
    DeliveryEnvelope {
        sender: args.sender.clone(),
        recipient: args.recipient.clone(),
        mailbox: args.mailbox.clone(),
        detail,
    }
}

/// Returns the name that is asked for, or that of the user who runs the program.
fn wanted(args: &DeliverArgs) -> Result<String, DeliveryError> {
    let of_environment = || {
        let names = ["LOGNAME", "USER"].into_iter();
        names.filter_map(std::env::var_os).find_map(|name| name.into_string().ok())
    };
    let asked = args.user.clone().or_else(|| args.recipient.clone()).or_else(of_environment);
    asked.ok_or_else(|| DeliveryError::temporary("no user: name one with --user"))
}

/// Returns the user of a configuration, whose mail belongs to the uid of this process.
fn of_config(
    args: &DeliverArgs,
    config: ServerConfig,
    found: Recipient,
) -> Result<Addressee, DeliveryError> {
    let own = rustix::process::geteuid().as_raw();
    if let Ok((uid, _)) = config.owner_of(&found.user)
        && uid != own
    {
        let text = format!("user {}: belongs to uid {uid}, and this is {own}", found.user.name);
        return Err(DeliveryError::new(DeliveryErrorKind::Forbidden, text));
    }
    let options = config.user_options(&found.user)?;
    let envelope = envelope(args, found.detail);
    let (user, wishes, message_len) = (found.user, wishes(args), None);
    Ok(Addressee { config, user, options, envelope, wishes, message_len })
}

/// Delivers as the owner of the mail, from root.
fn as_owner(
    args: &DeliverArgs,
    (config, text): (ServerConfig, String),
    found: Recipient,
    stdin: &mut dyn io::Read,
) -> Result<Delivered, DeliveryError> {
    let owner = config.owner_of(&found.user)?;
    create_user_folders(&OsVfs, &config, 0)?;
    let folder = config.server.state_dir.join("spool");
    let message = spool(&folder, config.limits.message_size, stdin)?;
    let order = DeliveryOrder {
        config_path: config.path.clone(),
        config: text,
        user: found.user,
        envelope: envelope(args, found.detail),
        wishes: wishes(args),
        message_len: message.len(),
    };
    order.run_as(&std::env::current_exe()?, owner, &message, config.delivery.timeout)
}

/// Returns the user who runs the program, with the folders of `barid`.
fn of_this_user(context: &Context, args: &DeliverArgs) -> Result<Addressee, DeliveryError> {
    if rustix::process::geteuid().is_root() {
        let text = "root has no mail: run it as the user, or name --config and --user";
        return Err(DeliveryError::new(DeliveryErrorKind::Forbidden, text));
    }
    let config =
        ServerConfig::parse(Path::new("defaults"), "").map_err(DeliveryError::temporary)?;
    let rules = NameRules { lower_case: false, ..NameRules::default() };
    let name = wanted(args).unwrap_or_else(|_| "me".to_owned());
    let name = rules.name(name.split('@').next().unwrap_or_default().as_bytes());
    let name =
        name.ok_or_else(|| DeliveryError::temporary("the name of the user is not usable"))?;
    let of_system = system_user(&name).ok().flatten();
    let own = Some(rustix::process::geteuid().as_raw());
    if args.user.is_some() && of_system.as_ref().is_some_and(|user| user.uid != own) {
        let text = format!("user {name}: another user: name --config");
        return Err(DeliveryError::new(DeliveryErrorKind::Forbidden, text));
    }
    let home = std::env::var("HOME").ok().filter(|home| home.starts_with('/'));
    let home = home.or_else(|| of_system.and_then(|user| user.home));
    let mut user = User { home, ..User::named(name) };
    if let Some(location) = &args.mail {
        let location = absolute(location)?;
        MailLocation::parse(&location).map_err(DeliveryError::temporary)?;
        user.fields.push(("mail".to_owned(), location));
    }
    let mut options = config.user_options(&user)?;
    let open = context.open_options().map_err(DeliveryError::temporary)?;
    options.folders.mailboxes = open.clone();
    options.spool_dir = open.cache_dir.clone().unwrap_or_else(std::env::temp_dir);
    options.open = open;
    let envelope = envelope(args, None);
    let wishes = wishes(args);
    Ok(Addressee { config, user, options, envelope, wishes, message_len: None })
}

/// Makes a path on the command line absolute.
fn absolute(location: &str) -> Result<String, DeliveryError> {
    let (format, path) = match location.split_once(':') {
        Some((format, path)) if barid::FormatName::named(format).is_some() => (Some(format), path),
        _ => (None, location),
    };
    let path = match path.starts_with(['/', '~', '%']) {
        true => path.to_owned(),
        false => std::path::absolute(path)?.to_string_lossy().into_owned(),
    };
    Ok(format.map_or_else(|| path.clone(), |format| format!("{format}:{path}")))
}

/// The spam filter over the word list of a user.
pub(crate) struct OwnFilter(pub(crate) SpamSettings);

impl SpamCheck for OwnFilter {
    fn is_spam(&self, user: &User, options: &UserOptions, message: &[u8]) -> io::Result<bool> {
        let Self(SpamSettings { profile, wordlist, .. }) = self;
        let path = match wordlist {
            Some(template) => {
                let path = template.expand(&user.name, user.home.as_deref());
                PathBuf::from(path.map_err(io::Error::other)?)
            }
            None => Filter::default_path(&options.open.state_dir),
        };
        classify(&path, profile.as_deref(), message)
    }
}

/// Returns `true` if a message is spam by a word list with its saved parameters.
fn classify(path: &Path, profile: Option<&str>, message: &[u8]) -> io::Result<bool> {
    if OsVfs.metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        // Who has trained nothing gets his mail, without a warning for each message.
        return Ok(false);
    }
    let wanted = profile.map(|name| match name {
        "modern" => Profile::Modern,
        _ => Profile::Bogofilter,
    });
    let filter = |options| Filter::new(Arc::new(OsVfs), path.to_owned(), options);
    let saved = filter(SpamOptions::default()).saved_parameters().map_err(io::Error::other)?;
    let saved = saved.filter(|saved| wanted.is_none_or(|wanted| wanted == saved.profile));
    let options = match saved {
        Some(saved) => {
            SpamOptions { parameters: saved.parameters, ..SpamOptions::new(saved.profile) }
        }
        None => SpamOptions::new(wanted.unwrap_or(Profile::Bogofilter)),
    };
    let classified = filter(options).classify_message(message, false).map_err(io::Error::other)?;
    Ok(classified.status == Status::Spam)
}
