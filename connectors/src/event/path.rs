//! Where a value stands in an event.

use std::fmt;

/// Keys from the event's own object inwards.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path(Vec<String>);

impl Path {
    /// A JSON pointer (`/item/price`, where `~1` is a slash and `~0` a tilde) or keys between dots (`item.price`).
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let keys: Vec<String> = match text.strip_prefix('/') {
            Some(pointer) => pointer.split('/').map(unescape).collect(),
            None => text.split('.').map(str::to_owned).collect(),
        };
        if keys.iter().any(String::is_empty) {
            return Err("expected a path like \"/item/price\" or \"item.price\"".into());
        }
        Ok(Self(keys))
    }

    /// A JSON pointer, or else one key, dots included.
    pub(crate) fn pointer_or_key(text: &str) -> Self {
        if text.starts_with('/') {
            return Self::parse(text).unwrap_or_else(|_| Self::key(text));
        }
        Self::key(text)
    }

    /// One key of the event's own object.
    pub(crate) fn key(name: &str) -> Self {
        Self(vec![name.to_owned()])
    }

    /// The key below this path.
    pub(crate) fn below(mut self, key: &str) -> Self {
        self.0.push(key.to_owned());
        self
    }

    pub(crate) fn keys(&self) -> &[String] {
        &self.0
    }
}

fn unescape(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}

/// With dots where that is unambiguous, else as a JSON pointer.
impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.iter().all(|key| !key.contains(['.', '/', '~'])) {
            return formatter.write_str(&self.0.join("."));
        }
        for key in &self.0 {
            let key = key.replace('~', "~0").replace('/', "~1");
            write!(formatter, "/{key}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_and_dots_name_the_same_place() {
        let pointer = Path::parse("/item/price").unwrap();
        assert_eq!(pointer, Path::parse("item.price").unwrap());
        assert_eq!(pointer.to_string(), "item.price");
        let odd = Path::parse("/a.b/c~1d/e~0").unwrap();
        assert_eq!(odd.keys(), ["a.b", "c/d", "e~"]);
        assert_eq!(Path::parse(&odd.to_string()).unwrap(), odd);
        assert_eq!(Path::pointer_or_key("a.b").keys(), ["a.b"]);
        for wrong in ["", "/", "a..b", "/a//b", "a."] {
            assert!(Path::parse(wrong).is_err(), "{wrong}");
        }
    }
}
