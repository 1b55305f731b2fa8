//! The parameters of scoring.

use crate::options::Profile;

/// Values nearer to zero than this count as not set, as in bogofilter.
pub(super) const EPS: f64 = f64::EPSILON;

/// The method that combines the probabilities of tokens to a score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Fisher's method over Robinson's probabilities, as bogofilter does it.
    #[default]
    Fisher,
    /// The balance of the log odds for spam and for ham.
    Balance,
}

impl Profile {
    /// Returns the method that combines this profile's tokens to a score.
    pub fn rule(self) -> Rule {
        match self {
            Self::Bogofilter | Self::Modern1 => Rule::Fisher,
            Self::Modern => Rule::Balance,
        }
    }
}

/// Scoring parameters and the cut-offs of the classes, each with the name of bogofilter's option.
/// The default is bogofilter's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The method that combines tokens.
    pub rule: Rule,
    /// Probability of a token never seen (`robx`), from 0 to 1; a word list may store its own
    /// (`.ROBX`).
    pub robx: f64,
    /// Weight of `robx` against the counts of a token, in messages (`robs`).
    pub robs: f64,
    /// Distance from 0.5 beyond which a token's probability is scored (`min_dev`).
    pub min_dev: f64,
    /// Lowest score of spam (`spam_cutoff`).
    pub spam_cutoff: f64,
    /// Highest score of ham (`ham_cutoff`); with 0 every message that is not spam is ham.
    pub ham_cutoff: f64,
    /// The effective size factor of the evidence for spam (`sp_esf`).
    pub sp_esf: f64,
    /// The effective size factor of the evidence for ham (`ns_esf`).
    pub ns_esf: f64,
    /// Number of tokens to score, those farthest from 0.5 (`token_count`); 0: all beyond `min_dev`.
    pub token_count: usize,
    /// Fewest tokens to score (`token_count_min`); 0: no minimum.
    pub token_count_min: usize,
    /// Most tokens to score (`token_count_max`), not counting ties with the last one; 0: no
    /// maximum.
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
    /// Returns the defaults of a profile.
    pub fn new(profile: Profile) -> Self {
        Self::of_rule(profile.rule())
    }

    /// Returns the defaults of a rule.
    pub(super) fn of_rule(rule: Rule) -> Self {
        match rule {
            Rule::Fisher => Self::default(),
            Rule::Balance => Self {
                rule,
                robx: 0.5,
                robs: 0.8,
                min_dev: 0.25,
                ham_cutoff: 0.000_1,
                ns_esf: 1.75,
                ..Self::default()
            },
        }
    }

    /// Returns these parameters with defaults for what bogofilter takes as not set: `robs`,
    /// `min_dev` and `spam_cutoff` of 0, and a `robx` of 0. The latter becomes the argument `robx`,
    /// the value that the word list stores, if there is one and the rule is [`Rule::Fisher`].
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

    /// Returns the class that the cut-offs give to a score.
    pub fn status(&self, spamicity: f64) -> Status {
        if spamicity >= self.spam_cutoff {
            Status::Spam
        } else if self.ham_cutoff < EPS || spamicity <= self.ham_cutoff {
            Status::Ham
        } else {
            Status::Unsure
        }
    }

    /// Returns `true` if `count`, the number of tokens beyond `min_dev`, violates one of the limits
    /// `token_count`, `token_count_min` and `token_count_max`.
    pub(super) fn is_bounded(&self, count: usize) -> bool {
        (self.token_count_min != 0 && count < self.token_count_min)
            || (self.token_count_max != 0 && count > self.token_count_max)
            || (self.token_count != 0 && count != self.token_count)
    }

    /// Returns the number of tokens to score where a limit is violated: the largest of the three.
    pub(super) fn bound(&self) -> usize {
        self.token_count.max(self.token_count_min).max(self.token_count_max)
    }
}

/// The class of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Spam.
    Spam,
    /// Not spam.
    Ham,
    /// Between the cut-offs.
    Unsure,
}
