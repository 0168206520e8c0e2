//! Amounts of memory.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

/// A number of bytes, written as one or with a unit as Redis takes it: `536870912` or `"512mb"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        // A letter alone counts in thousands, with a `b` behind it in powers of two.
        const UNITS: [(&str, u64); 8] = [
            ("kb", 1 << 10),
            ("mb", 1 << 20),
            ("gb", 1 << 30),
            ("k", 1_000),
            ("m", 1_000_000),
            ("g", 1_000_000_000),
            ("b", 1),
            ("", 1),
        ];
        let lower = text.to_ascii_lowercase();
        let split = UNITS.iter().find_map(|(unit, factor)| Some((lower.strip_suffix(unit)?, factor)));
        let number = split.and_then(|(digits, factor)| digits.parse::<u64>().ok()?.checked_mul(*factor));
        number.map(Bytes).ok_or_else(|| format!("an amount of memory is like 536870912 or \"512mb\", not {text:?}"))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        let expected = || de::Error::custom("an amount of memory is a number of bytes, or text like \"512mb\"");
        match Written::deserialize(deserializer).map_err(|_| expected())? {
            Written::Number(bytes) => Ok(Bytes(bytes)),
            Written::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}
