//! `leaselock man [VERB]`

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::args::inspect::ManArgs;

/// The manual page in roff, made from the definition of the arguments; or what is wrong.
pub(crate) fn text(args: &ManArgs) -> Result<Vec<u8>, String> {
    let mut command = Cli::command();
    // Verbs learn the global flags, and their own full name, from this.
    command.build();
    let command = match &args.verb {
        None => command,
        Some(verb) => command.find_subcommand(verb).cloned().ok_or_else(|| {
            let verbs: Vec<_> = command
                .get_subcommands()
                .map(clap::Command::get_name)
                .filter(|name| *name != "help")
                .collect();
            format!(
                "there is no verb of that name; there are {}",
                verbs.join(", ")
            )
        })?,
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut text)
        .map_err(|error| error.to_string())?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(verb: Option<&str>) -> Result<String, String> {
        text(&ManArgs {
            verb: verb.map(Into::into),
        })
        .map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn the_page_of_the_command_names_the_verbs_and_the_exit_codes() {
        let page = page(None).unwrap();
        assert!(page.contains(".TH leaselock 1") && page.contains("Exit codes"));
        for verb in Cli::command().get_subcommands() {
            assert!(page.contains(&format!("leaselock\\-{}(1)", verb.get_name())));
        }
    }

    #[test]
    fn the_page_of_a_verb_has_its_own_flags_and_the_global_ones() {
        let page = page(Some("run")).unwrap();
        assert!(page.contains(".TH leaselock\\-run 1") || page.contains(".TH leaselock-run 1"));
        assert!(page.contains("kill\\-after") && page.contains("\\-\\-url"));
    }

    #[test]
    fn an_unknown_verb_is_answered_with_those_that_exist() {
        assert!(
            page(Some("fly"))
                .unwrap_err()
                .contains("run, acquire, extend")
        );
    }
}
