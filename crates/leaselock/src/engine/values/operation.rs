//! Requests as tables.

/// Declares a request and reads its reply, in the words of its script's header: fields, keys and arguments in their
/// order, and a value for each tag.
///
/// The fields are variables in `script` and `encode`. Any other tag is malformed, unless `_` says how all are read.
/// The nodes of a quorum do not vote on it, or `votes elsewhere;` says that its `Votable` stands in another place.
macro_rules! operation {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident $(<$life:lifetime>)? {
            $($(#[$about:meta])* $field:ident: $Type:ty,)*
        }
        script $script:expr;
        $(votes $elsewhere:ident;)?
        fn encode($call:ident) $encode:block
        fn decode($answer:ident) -> $Reply:ty {
            $($($tag:literal)|+ => $value:expr,)*
            $(_ => $any:expr,)?
        }
        $(fn time_us($timed:ident) $time_us:block)?
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis struct $Name $(<$life>)? {
            $($(#[$about])* $vis $field: $Type,)*
        }

        impl $(<$life>)? $crate::script::Operation for $Name $(<$life>)? {
            type Reply = $Reply;

            #[allow(unused_variables, reason = "most scripts do not depend on them")]
            fn script(&self) -> &'static $crate::script::Script {
                let Self { $($field),* } = self;
                $script
            }

            #[allow(unused_variables, reason = "some are there for the script, or for who counts votes")]
            fn encode(&self, $call: &mut $crate::script::Call) {
                let Self { $($field),* } = self;
                $encode
            }

            #[allow(unreachable_patterns, reason = "`_` may say how all are read")]
            fn decode($answer: &$crate::script::Answer) -> Result<$Reply, $crate::script::Malformed> {
                Ok(match $answer.tag() {
                    $($($tag)|+ => $value,)*
                    $(_ => $any,)?
                    _ => return Err($crate::script::Malformed),
                })
            }

            $(fn time_us($timed: &$crate::script::Answer) -> Option<u64> $time_us)?
        }

        operation!(@votable $Name [$(<$life>)?] $($elsewhere)?);
    };
    (@votable $Name:ident [$($life:tt)*]) => {
        impl $($life)* $crate::quorum::tally::Votable for $Name $($life)* {}
    };
    (@votable $Name:ident [$($life:tt)*] elsewhere) => {};
}
pub(crate) use operation;
