//! One value of a table, and the flat names of a report's values.

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// One value of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// No value.
    #[default]
    Null,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// A text.
    Text(String),
}

impl Cell {
    /// The value as a number, if it is a number.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match *self {
            Cell::Integer(integer) => Some(integer as f64),
            Cell::Number(number) => Some(number),
            _ => None,
        }
    }

    /// A text; no value if the text is empty.
    pub(crate) fn text(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

/// The form in a table of texts. No value is an empty text.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Null => Ok(()),
            Cell::Boolean(it) => it.fmt(f),
            Cell::Integer(it) => it.fmt(f),
            Cell::Number(it) => it.fmt(f),
            Cell::Text(it) => it.fmt(f),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Null => to.serialize_unit(),
            Cell::Boolean(it) => to.serialize_bool(*it),
            Cell::Integer(it) => to.serialize_i64(*it),
            Cell::Number(it) => to.serialize_f64(*it),
            Cell::Text(it) => to.serialize_str(it),
        }
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Cell, D::Error> {
        let mut fields = Vec::with_capacity(1);
        Flat { name: String::new(), fields: &mut fields }.deserialize(from)?;
        let cell = fields.pop().map(|(_, cell)| cell);
        cell.ok_or_else(|| D::Error::custom("a value of a table is no list and no object"))
    }
}

/// The fields of a part of a report, in their order. The fields of an object have the object's name, an underscore and
/// their own name. Lists are left out.
///
/// # Panics
/// If the part cannot be written as JSON.
pub(crate) fn flat(part: &impl Serialize) -> Vec<(String, Cell)> {
    let text = serde_json::to_string(part).expect("a report is JSON");
    let mut fields = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(&text);
    let flat = Flat { name: String::new(), fields: &mut fields };
    flat.deserialize(&mut reader).expect("what is written can be read");
    fields
}

/// The destination of a value while a report is flattened.
struct Flat<'f> {
    name: String,
    fields: &'f mut Vec<(String, Cell)>,
}

impl Flat<'_> {
    fn put(self, cell: Cell) {
        self.fields.push((self.name, cell));
    }
}

impl<'de> DeserializeSeed<'de> for Flat<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Flat<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.put(Cell::Null);
        Ok(())
    }

    fn visit_bool<E>(self, it: bool) -> Result<(), E> {
        self.put(Cell::Boolean(it));
        Ok(())
    }

    fn visit_i64<E>(self, it: i64) -> Result<(), E> {
        self.put(Cell::Integer(it));
        Ok(())
    }

    // A larger value would be 292 years in nanoseconds. No run lasts so long.
    fn visit_u64<E>(self, it: u64) -> Result<(), E> {
        self.put(Cell::Integer(it.try_into().unwrap_or(i64::MAX)));
        Ok(())
    }

    fn visit_f64<E>(self, it: f64) -> Result<(), E> {
        self.put(Cell::Number(it));
        Ok(())
    }

    fn visit_str<E>(self, it: &str) -> Result<(), E> {
        self.put(Cell::text(it));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        while let Some(key) = object.next_key::<String>()? {
            let name = if self.name.is_empty() { key } else { format!("{}_{key}", self.name) };
            object.next_value_seed(Flat { name, fields: &mut *self.fields })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_report::TaskReport;

    #[test]
    fn fields_have_the_names_of_what_they_are_in() {
        let names: Vec<_> =
            flat(&TaskReport::default()).into_iter().map(|(name, _)| name).collect();
        let expected = ["name", "policy", "priority"];
        assert_eq!(names[..3], expected);
        assert!(names.iter().any(|name| name == "wakeup_latency_p99_ns"));
    }

    #[test]
    fn cells_are_read_as_they_are_written() {
        let cells = [
            Cell::Null,
            Cell::Boolean(true),
            Cell::Integer(-3),
            Cell::Number(1.0),
            Cell::Number(0.1 + 0.2),
            Cell::text("a\"\n"),
        ];
        let text = serde_json::to_string(&cells).unwrap();
        assert_eq!(text, "[null,true,-3,1.0,0.30000000000000004,\"a\\\"\\n\"]");
        assert_eq!(serde_json::from_str::<Vec<Cell>>(&text).unwrap(), cells);
        assert!(serde_json::from_str::<Cell>("[1]").is_err());
    }
}
