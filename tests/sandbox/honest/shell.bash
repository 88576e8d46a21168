# What shell scripts do all day. A line for each thing that does not work.
set -u
count=0
check() {
    count=$((count + 1))
    got=$(eval "$2" 2>&1)
    [ "$got" = "$3" ] || echo "$1: $got"
}
check pipes 'echo b a | tr " " "\n" | sort | head -1' a
check heredoc $'cat <<END\nx\nEND' x
check herestring 'cat <<<x' x
check substitution 'cat <(echo x)' x
check two 'diff <(echo x) <(echo x) && echo same' same
check into 'echo x > >(cat); wait $!; sleep 0.05' x
check fd 'echo x | cat /dev/fd/0' x
check stdin 'echo x | cat /dev/stdin' x
check stdout 'echo x > /dev/stdout' x
check null 'echo x > /dev/null; cat /dev/null' ''
check mktemp 'f=$(mktemp) && echo x > "$f" && cat "$f"' x
check folder 'd=$(mktemp -d) && cd "$d" && touch a && ls' a
check tar 'cd "$HOME" && mkdir -p t && echo x > t/f && tar czf t.tgz t && rm -r t && tar xzf t.tgz && cat t/f' x
check sort 'seq 50000 | sort -R -S 100K | sort -n -S 100K | tail -1' 50000
check find 'cd "$HOME" && mkdir -p a/b && find a -type d | wc -l' 2
check xargs 'seq 3 | xargs -P 2 -n 1 echo | sort | tr -d "\n"' 123
check awk 'seq 3 | awk "{ s += \$1 } END { print s }"' 6
check sed 'echo a | sed s/a/b/' b
check coproc 'coproc cat; echo x >&${COPROC[1]}; read -r l <&${COPROC[0]}; echo "$l"' x
check trap '(trap "echo x" EXIT)' x
check jobs 'sleep 0.01 & wait && echo x' x
check kill 'sleep 5 & kill $!; wait $! 2>/dev/null; echo $?' 143
check timeout 'timeout 0.05 sleep 5; echo $?' 124
check signals 'bash -c "trap \"echo x\" USR1; kill -USR1 \$\$"' x
check fifo 'mkfifo "$HOME/p"; echo x > "$HOME/p" & cat "$HOME/p"' x
check rights 'cd "$HOME"; touch m; chmod 640 m; stat -c %a m' 640
check who 'test -n "$(whoami 2>/dev/null || id -u)" && echo x' x
check clock 'date -d @0 -u +%Y' 1970
check random 'head -c 4 /dev/urandom | wc -c' 4
check links 'cd "$HOME"; ln -s a l; readlink l' a
check nice 'nice -n 5 echo x' x
check processors 'test "$(nproc)" -ge 1 && echo x' x
check limits 'ulimit -n' 512
echo "$count checks"
