
# The names of locks that are held, where a verb takes one.
_leaselock_names() {
    local typed="${COMP_LINE:0:COMP_POINT}"
    local -a words=() store=()
    read -ra words <<< "$typed"
    if [[ $typed == *[[:space:]] ]]; then words+=(""); fi
    local last=$((${#words[@]} - 1)) verb= option= names=0 index word
    local current="${words[last]}"
    for ((index = 1; index < last; index++)); do
        word="${words[index]}"
        if [[ -n $option ]]; then
            case $option in --url | --url-file | --prefix) store+=("$option" "$word") ;; esac
            option=
            continue
        fi
        case $word in
            --url=* | --url-file=* | --prefix=*) store+=("$word") ;;
            @OPTIONS@) option=$word ;;
            -*) ;;
            *) if [[ -z $verb ]]; then verb=$word; else names=$((names + 1)); fi ;;
        esac
    done
    if [[ -n $option || $current == -* ]]; then return 1; fi
    case $verb in
        status) ;;
        run | hold | acquire | wait | break | log | permits | elect | leader | once) if ((names > 0)); then return 1; fi ;;
        cron) if ((names != 1)); then return 1; fi ;;
        *) return 1 ;;
    esac
    # Readline completes only what stands behind the last colon.
    local before=
    if [[ $COMP_WORDBREAKS == *:* && $current == *:* ]]; then before="${current%"${current##*:}"}"; fi
    local name
    while IFS= read -r name; do
        COMPREPLY+=("$(printf '%q' "${name#"$before"}")")
    done < <(leaselock ${store[@]+"${store[@]}"} ls --complete="$current" 2> /dev/null)
}

_leaselock_or_names() {
    COMPREPLY=()
    _leaselock_names || _leaselock "$@"
}

complete -F _leaselock_or_names -o bashdefault -o default leaselock
