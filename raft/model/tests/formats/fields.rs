//! Which fields of the replicated types the golden files set. Reading them by a deserializer that is told each type's
//! fields, as serde tells them, and looks which are there: a field that is added fails this until a golden file has it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use holm_model::snapshot::Header;
use holm_model::{Entry, State};
use serde::Deserialize;
use serde::de::value::{Error, MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

/// By type and field, whether one of the files has it.
type Seen = RefCell<BTreeMap<String, bool>>;

/// What a file holds, as far as the format tells.
enum Value {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Text(String),
    Bytes(Vec<u8>),
    Seq(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Unsigned(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Signed(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
        Ok(Value::Bytes(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(Value::Seq(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(entry) = map.next_entry()? {
            values.push(entry);
        }
        Ok(Value::Map(values))
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

/// Reads a value, and notes which fields of each type were there.
#[derive(Clone, Copy)]
struct Reader<'a> {
    value: &'a Value,
    seen: &'a Seen,
}

impl<'a> Reader<'a> {
    fn of(self, value: &'a Value) -> Self {
        Self { value, ..self }
    }

    fn note(self, kind: &str, fields: &[&str]) {
        let Value::Map(entries) = self.value else { return };
        for field in fields {
            let is_it = |(key, value): &(Value, Value)| {
                matches!(key, Value::Text(key) if key == field) && !matches!(value, Value::Null)
            };
            *self.seen.borrow_mut().entry(format!("{kind}.{field}")).or_default() |=
                entries.iter().any(is_it);
        }
    }
}

impl<'de> IntoDeserializer<'de, Error> for Reader<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Unsigned(value) => visitor.visit_u64(*value),
            Value::Signed(value) => visitor.visit_i64(*value),
            Value::Text(value) => visitor.visit_str(value),
            Value::Bytes(value) => visitor.visit_bytes(value),
            Value::Seq(values) => {
                visitor.visit_seq(SeqDeserializer::new(values.iter().map(|value| self.of(value))))
            }
            Value::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| (self.of(key), self.of(value)));
                visitor.visit_map(MapDeserializer::new(entries))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note(name, fields);
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::Text(variant) => visitor.visit_enum(StrDeserializer::new(variant)),
            Value::Map(entries) => match entries.as_slice() {
                [(Value::Text(variant), value)] => {
                    visitor.visit_enum(Variant { of: name, variant, reader: self.of(value) })
                }
                _ => Err(serde::de::Error::custom("an enum is a map of one")),
            },
            _ => Err(serde::de::Error::custom("an enum is a name, or a map of one")),
        }
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

/// A variant that holds something.
struct Variant<'a> {
    of: &'static str,
    variant: &'a str,
    reader: Reader<'a>,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Error> {
        Ok((seed.deserialize(StrDeserializer::<Error>::new(self.variant))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.reader.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.reader.note(&format!("{}::{}", self.of, self.variant), fields);
        self.reader.deserialize_any(visitor)
    }
}

fn read<T: for<'de> Deserialize<'de>>(bytes: &[u8], seen: &Seen) {
    let value: Value = rmp_serde::from_slice(bytes).unwrap();
    T::deserialize(Reader { value: &value, seen }).unwrap();
}

#[test]
fn every_field_of_the_replicated_types_is_in_a_golden_file() {
    let seen = Seen::default();
    for file in std::fs::read_dir(super::golden("")).unwrap() {
        let path = file.unwrap().path();
        #[allow(clippy::disallowed_methods, reason = "a test reads its golden files")]
        let bytes = std::fs::read(&path).unwrap();
        match path.file_name().unwrap().to_string_lossy().starts_with("entry-") {
            true => read::<Entry>(&bytes, &seen),
            false => read::<(Header, State)>(&bytes, &seen),
        }
    }
    let seen = seen.into_inner();
    let missing: Vec<&String> = seen.iter().filter(|(_, seen)| !**seen).map(|(field, _)| field).collect();
    assert_eq!(missing, Vec::<&String>::new(), "add them to a sample: HOLM_WRITE_GOLDEN=1 writes its file");
}
