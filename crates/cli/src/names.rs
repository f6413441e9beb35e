//! The values of options in completions: the names of kernels and features, folders, files, or nothing.

use clap::builder::{PossibleValue, TypedValueParser, ValueHint};
use clap::{Arg, Command};
use runyard_engine::features::{Feature, Switched};
use runyard_engine::kernel::{Kernel, Model};
use std::error::Error;
use std::ffi::OsStr;
use std::str::FromStr;

/// Reads the name of a kernel.
pub(crate) const KERNELS: Names<Model> = Names { all: kernels, read: Model::from_str };

/// Reads a feature and its position.
pub(crate) const FEATURES: Names<Switched> = Names { all: features, read: Switched::from_str };

/// The reader of a value that has a name. It lists the names for completions and for the help.
#[derive(Debug)]
pub(crate) struct Names<T: FromStr> {
    all: fn() -> Vec<&'static str>,
    read: fn(&str) -> Result<T, T::Err>,
}

// A derived `Clone` would ask the value for one.
impl<T: FromStr> Clone for Names<T> {
    fn clone(&self) -> Names<T> {
        Names { ..*self }
    }
}

impl<T> TypedValueParser for Names<T>
where
    T: FromStr<Err: Error + Send + Sync + 'static> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, to: &Command, of: Option<&Arg>, text: &OsStr) -> Result<T, clap::Error> {
        self.read.parse_ref(to, of, text)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.all)().into_iter().map(PossibleValue::new)))
    }
}

fn kernels() -> Vec<&'static str> {
    Kernel::ALL.map(Kernel::name).to_vec()
}

fn features() -> Vec<&'static str> {
    // A name lives as long as the command.
    let off = |feature| &*Switched { feature, on: false }.to_string().leak();
    Feature::ALL.into_iter().map(Feature::name).chain(Feature::ALL.into_iter().map(off)).collect()
}

/// Tells shells what to complete as an option's value: folders, files, or nothing. Without it a shell offers files for
/// a number too.
pub(crate) fn hinted(argument: Arg) -> Arg {
    let named = |name: &str| {
        argument.get_value_names().is_some_and(|names| names.iter().any(|it| it == name))
    };
    let hint = match () {
        () if argument.is_positional() || named("FILE") => ValueHint::FilePath,
        () if named("DIR") => ValueHint::DirPath,
        () => ValueHint::Other,
    };
    if argument.get_action().takes_values() { argument.value_hint(hint) } else { argument }
}
