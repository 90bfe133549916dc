//! Enums whose variants have names.

/// Declares an enum with the name of each variant in configuration, metrics and APIs.
macro_rules! named {
    ($(#[$about:meta])* $visibility:vis enum $enum:ident {
        $($(#[$doc:meta])* $variant:ident = $name:literal,)+
    }) => {
        $(#[$about])*
        $visibility enum $enum {
            $($(#[$doc])* $variant,)+
        }

        impl $enum {
            /// In the order of the variants, which index it.
            $visibility const NAMED: [(&'static str, Self); [$($name),+].len()] =
                [$(($name, Self::$variant)),+];

            $visibility fn name(self) -> &'static str {
                Self::NAMED[self as usize].0
            }
        }
    };
}

pub(crate) use named;
