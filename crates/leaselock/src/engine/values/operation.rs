//! Requests that one store runs, as tables.

/// Declares a request and reads its reply, in the words of its script's header: fields, keys and arguments in their
/// order, and a value for each tag.
///
/// The fields are variables in `script` and `encode`. Any other tag is malformed. The nodes of a quorum do not vote on it.
macro_rules! operation {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident $(<$life:lifetime>)? {
            $($(#[$about:meta])* $field:ident: $Type:ty,)*
        }
        script $script:expr;
        fn encode($call:ident) $encode:block
        fn decode($answer:ident) -> $Reply:ty {
            $($($tag:literal)|+ => $value:expr,)*
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

            fn encode(&self, $call: &mut $crate::script::Call) {
                let Self { $($field),* } = self;
                $encode
            }

            fn decode($answer: &$crate::script::Answer) -> Result<$Reply, $crate::script::Malformed> {
                Ok(match $answer.tag() {
                    $($($tag)|+ => $value,)*
                    _ => return Err($crate::script::Malformed),
                })
            }

            $(fn time_us($timed: &$crate::script::Answer) -> Option<u64> $time_us)?
        }

        impl $(<$life>)? $crate::quorum::votable::Votable for $Name $(<$life>)? {}
    };
}
pub(crate) use operation;
