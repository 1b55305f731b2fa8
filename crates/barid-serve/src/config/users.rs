//! Settings of the users who may log in.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use barid_auth::oauth::{Algorithm, Endpoint, TokenRules};
use barid_auth::sasl::Mechanism;
use barid_auth::scheme::Scheme;
use barid_auth::{NameRules, UserName};

use super::reader::Section;
use super::values::time;

/// Settings of the users.
#[derive(Clone, Debug)]
pub struct UserSettings {
    /// The rules of user names.
    pub rules: NameRules,
    /// Users who may log in as any other.
    pub masters: BTreeSet<UserName>,
    /// Mechanisms of SASL that are not offered.
    pub disabled_mechanisms: BTreeSet<Mechanism>,
    /// Files with users, in the order in which they are asked.
    pub passwd_files: Vec<PasswdFileSettings>,
    /// The users of the system; they are asked last.
    pub pam: Option<PamSettings>,
    /// Logins with tokens.
    pub oauth: Option<OauthSettings>,
}

/// Settings of a file with users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswdFileSettings {
    /// The file.
    pub path: PathBuf,
    /// The scheme of passwords that name none.
    pub default_scheme: Scheme,
}

/// Settings of the users of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PamSettings {
    /// The service of PAM.
    pub service: String,
    /// The lowest uid that may log in.
    pub uid_min: u32,
    /// Time after which an attempt is ended.
    pub timeout: Duration,
}

/// Settings of logins with tokens.
#[derive(Clone, Debug)]
pub struct OauthSettings {
    /// The rules of tokens.
    pub rules: TokenRules,
    /// The way in which tokens are checked.
    pub check: OauthCheck,
    /// File with the certificates of the authorities of the issuer; those that the system trusts
    /// if `None`.
    pub ca_file: Option<PathBuf>,
}

/// A way to check tokens.
#[derive(Clone, Debug)]
pub enum OauthCheck {
    /// By the keys of the issuer.
    Jwks {
        /// The address of the keys.
        url: Endpoint,
        /// The algorithms that are allowed.
        algorithms: Vec<Algorithm>,
    },
    /// By asking the issuer (RFC 7662).
    Introspection {
        /// The address.
        url: Endpoint,
        /// The name of this server at the issuer.
        client_id: String,
        /// The file with the secret of this server at the issuer.
        client_secret_file: PathBuf,
    },
}

impl OauthCheck {
    /// Returns the address of the issuer.
    #[must_use]
    pub fn url(&self) -> &Endpoint {
        match self {
            Self::Jwks { url, .. } | Self::Introspection { url, .. } => url,
        }
    }
}

impl UserSettings {
    pub(super) fn read(root: &Section<'_>) -> Self {
        let section = root.section("users", "users");
        let section = section.as_ref();
        let lower_case = section.and_then(|section| section.flag("lower_case")).unwrap_or(true);
        let extra = section.and_then(|section| section.parsed("extra_characters", extra));
        let rules = NameRules { lower_case, extra: extra.unwrap_or_default() };
        let name = |text: &str| {
            let name = rules.name(text.as_bytes());
            name.ok_or_else(|| format!("{text:?} cannot be the name of a user"))
        };
        let masters = section.map(|section| section.list("masters", name)).unwrap_or_default();
        let mechanism = |text: &str| {
            Mechanism::named(text).ok_or_else(|| {
                let names = Mechanism::ALL.map(Mechanism::name).join(", ");
                format!("{text:?} is not one of {names}")
            })
        };
        let disabled = section.map(|section| section.list("disabled_mechanisms", mechanism));
        let files = section.map(|section| section.sections("passwd_file", "users.passwd_file"));
        let pam = section.and_then(|section| section.section("pam", "users.pam"));
        let oauth = section.and_then(|section| section.section("oauth", "users.oauth"));
        let passwd_files: Vec<_> =
            files.unwrap_or_default().iter().filter_map(passwd_file).collect();
        Self {
            masters: masters.into_iter().collect(),
            disabled_mechanisms: disabled.unwrap_or_default().into_iter().collect(),
            passwd_files,
            pam: pam.as_ref().map(pam_settings),
            oauth: oauth.as_ref().and_then(oauth_settings),
            rules,
        }
    }
}

fn extra(text: &str) -> Result<String, String> {
    let is_never = |char: char| char.is_control() || char.is_whitespace() || "/:".contains(char);
    match text.chars().find(|char| is_never(*char)) {
        Some(char) => Err(format!("{char:?} cannot be part of a user name")),
        None => Ok(text.to_owned()),
    }
}

fn passwd_file(section: &Section<'_>) -> Option<PasswdFileSettings> {
    if !section.has("path") {
        section.problem_here("`path` is missing");
    }
    let scheme = section.parsed("default_scheme", |text| {
        let why = "is not a scheme such as \"CRYPT\", \"ARGON2ID\" or \"SSHA512\"";
        Scheme::named(text).ok_or_else(|| format!("{text:?} {why}"))
    });
    let default_scheme = scheme.unwrap_or(Scheme::Crypt);
    Some(PasswdFileSettings { path: section.path("path")?, default_scheme })
}

fn pam_settings(section: &Section<'_>) -> PamSettings {
    let service = section.parsed("service", |text| match text {
        "" | "." | ".." => Err(format!("{text:?} is not a file in /etc/pam.d")),
        text if text.contains('/') => Err(format!("{text:?} is a path; name a file of /etc/pam.d")),
        text => Ok(text.to_owned()),
    });
    PamSettings {
        service: service.unwrap_or_else(|| "barid".to_owned()),
        uid_min: section.number("uid_min", 1..=u64::from(u32::MAX)).unwrap_or(1000) as u32,
        timeout: section.parsed("timeout", time).unwrap_or(Duration::from_secs(30)),
    }
}

fn oauth_settings(section: &Section<'_>) -> Option<OauthSettings> {
    let required = |key: &str| {
        if !section.has(key) {
            section.problem_here(format_args!("`{key}` is missing"));
        }
        section.text(key)
    };
    let (issuer, audience) = (required("issuer"), required("audience"));
    let claim = section.text("mailbox_claim").unwrap_or_else(|| "email".to_owned());
    let (scope, ca_file) = (section.text("scope"), section.path("ca_file"));
    let jwks = section.parsed("jwks_url", Endpoint::new);
    let introspection = section.parsed("introspection_url", Endpoint::new);
    let algorithms = section.list("algorithms", |text| {
        Algorithm::named(text)
            .ok_or_else(|| format!("{text:?} is not an algorithm such as \"RS256\" or \"ES256\""))
    });
    let check = match (section.has("jwks_url"), section.has("introspection_url")) {
        (true, false) => {
            let all = algorithms.is_empty();
            let algorithms = if all { Algorithm::ALL.to_vec() } else { algorithms };
            jwks.map(|url| OauthCheck::Jwks { url, algorithms })
        }
        (false, true) => {
            let client_id = required("client_id");
            if !section.has("client_secret_file") {
                section.problem_here("`client_secret_file` is missing");
            }
            let secret = section.path("client_secret_file");
            match (introspection, client_id, secret) {
                (Some(url), Some(client_id), Some(client_secret_file)) => {
                    Some(OauthCheck::Introspection { url, client_id, client_secret_file })
                }
                _ => None,
            }
        }
        _ => {
            section.problem_here("either `jwks_url` or `introspection_url` is needed");
            None
        }
    };
    let rules = TokenRules::new(&issuer?, &audience?, &claim);
    let rules = rules.map_err(|error| section.problem_here(error)).ok()?;
    Some(OauthSettings { rules: TokenRules { scope, ..rules }, check: check?, ca_file })
}
