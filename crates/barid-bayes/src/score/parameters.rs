//! The parameters of scoring.

use crate::options::Profile;

/// Whatever is nearer to zero than this counts as not set.
pub(super) const EPS: f64 = f64::EPSILON;

/// A way to combine what tokens say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Fisher's method over Robinson's probabilities, as bogofilter does it.
    #[default]
    Fisher,
    /// The balance of the log odds for spam and for ham.
    Balance,
}

/// How a message is scored, and from which score on it is what. The default is bogofilter's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The combination of tokens.
    pub rule: Rule,
    /// What a token never seen says (`robx`); a word list may hold another (`.ROBX`).
    pub robx: f64,
    /// How much that weighs against what was seen, in messages (`robs`).
    pub robs: f64,
    /// How far from 0.5 a token must be to count (`min_dev`).
    pub min_dev: f64,
    /// From which score on a message is spam (`spam_cutoff`).
    pub spam_cutoff: f64,
    /// Up to which score a message is ham (`ham_cutoff`); 0: all that is not spam is.
    pub ham_cutoff: f64,
    /// The effective size factor of the evidence for spam (`sp_esf`).
    pub sp_esf: f64,
    /// The effective size factor of the evidence for ham (`ns_esf`).
    pub ns_esf: f64,
    /// How many tokens count (`token_count`), 0: those beyond `min_dev`.
    pub token_count: usize,
    /// How many tokens count at least (`token_count_min`).
    pub token_count_min: usize,
    /// How many tokens count at most, tokens as far as the last one aside (`token_count_max`).
    pub token_count_max: usize,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            rule: Rule::Fisher,
            robx: 0.52,
            robs: 0.0178,
            min_dev: 0.375,
            spam_cutoff: 0.99,
            ham_cutoff: 0.45,
            sp_esf: 1.0,
            ns_esf: 1.0,
            token_count: 0,
            token_count_min: 0,
            token_count_max: 0,
        }
    }
}

impl Parameters {
    /// The default of a profile.
    pub fn new(profile: Profile) -> Self {
        Self::of_rule(profile.rule())
    }

    /// The default of a rule.
    pub(super) fn of_rule(rule: Rule) -> Self {
        match rule {
            Rule::Fisher => Self::default(),
            Rule::Balance => Self {
                rule,
                robx: 0.5,
                robs: 1.0,
                min_dev: 0.35,
                ham_cutoff: 0.001,
                ns_esf: 2.0,
                ..Self::default()
            },
        }
    }

    /// With the defaults in place of what bogofilter takes as not set: `robs`, `min_dev` and
    /// `spam_cutoff` that are 0, and a `robx` of 0, for which `robx` stands, if it is given: what
    /// the word list holds.
    #[must_use]
    pub fn filled_in(mut self, robx: Option<f64>) -> Self {
        let default = Self::of_rule(self.rule);
        // The mean of all tokens is a prior of Fisher's method; a balance has its middle at 0.5.
        let robx = robx.filter(|_| self.rule == Rule::Fisher);
        if self.min_dev.abs() < EPS {
            self.min_dev = default.min_dev;
        }
        if self.spam_cutoff < EPS {
            self.spam_cutoff = default.spam_cutoff;
        }
        if self.robs.abs() < EPS {
            self.robs = default.robs;
        }
        if self.robx.abs() < EPS {
            self.robx = robx.filter(|robx| *robx != 0.0).unwrap_or(default.robx);
        }
        self
    }

    /// What a score means.
    pub fn status(&self, spamicity: f64) -> Status {
        if spamicity >= self.spam_cutoff {
            Status::Spam
        } else if self.ham_cutoff < EPS || spamicity <= self.ham_cutoff {
            Status::Ham
        } else {
            Status::Unsure
        }
    }

    /// Whether so many tokens beyond `min_dev` are not what was asked for.
    pub(super) fn is_bounded(&self, count: usize) -> bool {
        (self.token_count_min != 0 && count < self.token_count_min)
            || (self.token_count_max != 0 && count > self.token_count_max)
            || (self.token_count != 0 && count != self.token_count)
    }

    /// How many tokens count where the number is bounded.
    pub(super) fn bound(&self) -> usize {
        self.token_count.max(self.token_count_min).max(self.token_count_max)
    }
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Spam.
    Spam,
    /// No spam.
    Ham,
    /// Neither for sure.
    Unsure,
}
