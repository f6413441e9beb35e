//! A reader of JSON that keeps the order of keys, which the usual reader loses.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads a text that contains exactly one value.
    #[track_caller]
    pub fn read(text: &str) -> Json {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[track_caller]
    pub fn keys(&self) -> Vec<&str> {
        let Json::Object(members) = self else { panic!("an object: {self:?}") };
        members.iter().map(|(key, _)| key.as_str()).collect()
    }

    /// Returns the value at a path of keys and indices, as `tasks.0.name`.
    #[track_caller]
    pub fn at(&self, path: &str) -> &Json {
        path.split('.').fold(self, |value, step| match value {
            Json::Object(members) => {
                let found = members.iter().find(|(key, _)| key == step);
                &found.unwrap_or_else(|| panic!("{path}: {step} in {value:?}")).1
            }
            Json::List(values) => &values[step.parse::<usize>().unwrap()],
            _ => panic!("{path}: {value:?} has no parts"),
        })
    }

    /// Returns the number, if the value is one.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Json::Number(number) => Some(*number),
            _ => None,
        }
    }

    #[track_caller]
    pub fn number(&self, path: &str) -> f64 {
        match self.at(path) {
            Json::Number(number) => *number,
            other => panic!("{path} is a number: {other:?}"),
        }
    }

    #[track_caller]
    pub fn text(&self, path: &str) -> &str {
        match self.at(path) {
            Json::Text(text) => text,
            other => panic!("{path} is a text: {other:?}"),
        }
    }

    #[track_caller]
    pub fn list(&self, path: &str) -> &[Json] {
        match self.at(path) {
            Json::List(values) => values,
            other => panic!("{path} is a list: {other:?}"),
        }
    }

    /// Returns the sum of a number over the rows of a list.
    #[track_caller]
    pub fn sum(&self, list: &str, key: &str) -> f64 {
        self.list(list).iter().map(|row| row.number(key)).sum()
    }
}

struct AnyValue;

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value as f64))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element()? {
            list.push(value);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Json::Object(object))
    }
}
