//! Chosen parameters, stored beside the word list as `PATH.parameters`: lines of bogofilter's
//! configuration, and the profile that they were chosen for.

use std::path::PathBuf;

use barid_bayes::{Parameters, Profile};
use barid_vfs::{File, atomic_replace};

use crate::limits::PARAMETERS_LEN_MAX;
use crate::{Error, Filter, Result};

/// Parameters with the profile that they were chosen for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SavedParameters {
    /// The profile.
    pub profile: Profile,
    /// The parameters; those missing from the file have their defaults.
    pub parameters: Parameters,
}

/// Names of profiles. Files from before the second version of the tokens have `modern`.
const PROFILES: [(&str, Profile); 3] = [
    ("bogofilter", Profile::Bogofilter),
    ("modern", Profile::Modern1),
    ("modern-2", Profile::Modern),
];

impl Filter {
    /// Returns the path of the file of parameters.
    pub fn parameters_path(&self) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(".parameters");
        path.into()
    }

    /// Loads the parameters that were chosen for the word list, if any were saved.
    ///
    /// # Errors
    /// [`Error::Parameters`]; errors of the file system.
    pub fn saved_parameters(&self) -> Result<Option<SavedParameters>> {
        let path = self.parameters_path();
        let bytes = match self.vfs.read(&path, PARAMETERS_LEN_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(Error::at(&path))?,
        };
        let parsed = parse(&String::from_utf8_lossy(&bytes));
        parsed.map(Some).map_err(|(line, problem)| Error::Parameters { path, line, problem })
    }

    /// Saves parameters for the filter's profile. Durable when this returns; after a crash the file
    /// has the old or the new ones.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn save_parameters(&self, parameters: &Parameters) -> Result<PathBuf> {
        let path = self.parameters_path();
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = barid_vfs::create_dir_durable(&*self.vfs, folder, 0o700);
            made.map_err(Error::at(folder))?;
        }
        let text = write(self.options.profile, parameters);
        let write = |file: &dyn File| file.write_all_at(text.as_bytes(), 0);
        let written = atomic_replace(&*self.vfs, &path, 0o600, false, write);
        written.map(|_| path.clone()).map_err(Error::at(&path))
    }
}

fn write(profile: Profile, parameters: &Parameters) -> String {
    let name = PROFILES.iter().find(|(_, known)| *known == profile).map_or("", |(name, _)| name);
    let lines = bogofilter_config(parameters);
    format!(
        "# All lines except `profile` are valid in bogofilter.cf, too.\nprofile={name}\n{lines}"
    )
}

/// Formats parameters as lines of bogofilter's configuration, for bogofilter itself and for the
/// drop-in. Parameters for other words than those of [`Profile::Bogofilter`] are of no use there.
pub fn bogofilter_config(parameters: &Parameters) -> String {
    let Parameters { robx, robs, min_dev, spam_cutoff, ham_cutoff, sp_esf, ns_esf, .. } =
        *parameters;
    let Parameters { token_count, token_count_min, token_count_max, .. } = *parameters;
    format!(
        "# Chosen by `barid spam tune`.\n\
         robx={robx}\nrobs={robs}\nmin_dev={min_dev}\n\
         spam_cutoff={spam_cutoff}\nham_cutoff={ham_cutoff}\nsp_esf={sp_esf}\n\
         ns_esf={ns_esf}\ntoken_count={token_count}\ntoken_count_min={token_count_min}\n\
         token_count_max={token_count_max}\n"
    )
}

/// Returns the profile that the lines name; the defaults of all other parameters depend on it.
fn profile_in(text: &str) -> std::result::Result<Profile, (usize, &'static str)> {
    let named = text.lines().zip(1..).filter_map(|(line, number)| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "profile").then_some((value.trim(), number))
    });
    let Some((value, number)) = named.last() else { return Ok(Profile::Bogofilter) };
    let known = PROFILES.iter().find(|(name, _)| *name == value);
    Ok(known.ok_or((number, "unknown profile"))?.1)
}

fn parse(text: &str) -> std::result::Result<SavedParameters, (usize, &'static str)> {
    let profile = profile_in(text)?;
    let mut saved = SavedParameters { profile, parameters: Parameters::new(profile) };
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#'));
    for (line, number) in lines.filter(|(line, _)| !line.trim().is_empty()) {
        let (key, value) = line.split_once('=').ok_or((number, "a line is NAME=VALUE"))?;
        let (key, value) = (key.trim(), value.trim());
        let all = &mut saved.parameters;
        let (real, range) = match key {
            "robx" => (&mut all.robx, 0.0..=1.0),
            "robs" => (&mut all.robs, 0.0..=1e9),
            "min_dev" => (&mut all.min_dev, 0.0..=1.0),
            "spam_cutoff" => (&mut all.spam_cutoff, 0.0..=1.0),
            "ham_cutoff" => (&mut all.ham_cutoff, 0.0..=1.0),
            "sp_esf" => (&mut all.sp_esf, 0.0..=1e9),
            "ns_esf" => (&mut all.ns_esf, 0.0..=1e9),
            "profile" => continue,
            "token_count" | "token_count_min" | "token_count_max" => {
                let count = value.parse().map_err(|_| (number, "not a number of tokens"))?;
                *match key {
                    "token_count" => &mut all.token_count,
                    "token_count_min" => &mut all.token_count_min,
                    _ => &mut all.token_count_max,
                } = count;
                continue;
            }
            _ => return Err((number, "unknown parameter")),
        };
        let value = value.parse().ok().filter(|value| range.contains(value));
        *real = value.ok_or((number, "not a valid value of this parameter"))?;
    }
    Ok(saved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_they_were_written() {
        for (_, profile) in PROFILES {
            let parameters = Parameters {
                robx: 0.1 + 0.2,
                spam_cutoff: 0.999_999_999_7,
                token_count_max: 40,
                ..Parameters::new(profile)
            };
            let found = parse(&write(profile, &parameters));
            assert_eq!(found, Ok(SavedParameters { profile, parameters }));
        }
    }

    #[test]
    fn what_is_no_parameter_is_told() {
        let check = |text, expected: Option<usize>| {
            assert_eq!(parse(text).err().map(|(line, _)| line), expected, "{text}");
        };
        check("", None);
        check("# one\n\n robs = 0.5 \n", None);
        check("robs=0.5\nrobx=2\n", Some(2));
        check("robs=NaN", Some(1));
        check("min_dev", Some(1));
        check("profile=other", Some(1));
        check("color=red", Some(1));
        check("token_count=-1", Some(1));
    }
}
