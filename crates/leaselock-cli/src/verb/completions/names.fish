
# The names of locks that are held, where a verb takes one.
complete -c leaselock -n "__fish_leaselock_using_subcommand status wait break log acquire hold permits leader" -f -a "(leaselock ls --complete=(commandline -ct | string unescape; or echo) 2>/dev/null)"
complete -c leaselock -n "__fish_leaselock_using_subcommand run elect once; and test (count (commandline -opc)) -eq 2" -f -a "(leaselock ls --complete=(commandline -ct | string unescape; or echo) 2>/dev/null)"
complete -c leaselock -n "__fish_leaselock_using_subcommand cron; and test (count (commandline -opc)) -eq 3" -f -a "(leaselock ls --complete=(commandline -ct | string unescape; or echo) 2>/dev/null)"
