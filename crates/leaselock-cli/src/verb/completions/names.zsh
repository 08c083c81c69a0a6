# The names of locks that are held, where a verb takes one.
(( $+functions[_leaselock_names] )) ||
_leaselock_names() {
    local -a names store
    local option
    for option in --url --url-file --prefix; do
        if [[ -n ${opt_args[$option]} ]]; then store+=($option "${opt_args[$option]//\\:/:}"); fi
    done
    names=(${(f)"$(_call_program names leaselock ${(q)store} ls --complete=${(q)${(Q)PREFIX}} 2> /dev/null)"})
    compadd -a names
}

