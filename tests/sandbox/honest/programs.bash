# Programs that skills call, without any grant. A line for each that does not do what it does outside; those that are not
# installed are named on standard error.
set -u
count=0
check() {
    count=$((count + 1))
    command -v "$1" > /dev/null || { echo "missing $1" >&2; return; }
    got=$(cd "$HOME" && eval "$2" 2>&1)
    [ "$got" = "$3" ] || echo "$1: $got"
}
cat > "$HOME/A.java" <<'END'
public class A {
    public static void main(String[] words) throws Exception {
        java.security.MessageDigest.getInstance("SHA-256").digest(new byte[1]);
        new java.security.SecureRandom().nextInt();
        javax.net.ssl.SSLContext.getDefault();
        java.util.logging.Logger.getLogger("x");
        System.out.println(java.time.ZoneId.of("Europe/Berlin"));
    }
}
END
printf 'all: a b\na b:\n\t@echo $@\n' > "$HOME/Makefile"
echo '{"name": "x", "version": "1.0.0", "scripts": {"say": "echo x"}}' > "$HOME/package.json"
check java 'java A.java' Europe/Berlin
check javac 'mkdir -p classes && javac -d classes A.java && java -cp classes A' Europe/Berlin
# Only complaints of the system's files count: a package may complain of another for reasons of its own.
check pip 'pip list 2>&1 | grep -c -e /etc/ -e Traceback' 0
check pip 'python3 -m venv --without-pip v && v/bin/python -c "print(1)"' 1
check wget 'wget --tries=1 -q -O- http://127.0.0.1:9/ 2>&1 | grep -c /etc/' 0
check file 'file -b "$0" | grep -c -i -e script -e text' 1
check man 'man -w sh 2>&1 | grep -c /etc/' 0
check lsb_release 'lsb_release -is > /dev/null && echo x' x
check uptime 'uptime | grep -c load' 1
check free 'free | grep -c Mem' 1
check git 'git init -q r && cd r && echo x > a && git add a && git -c user.name=a -c user.email=a@b commit -qm m && git log --oneline | wc -l' 1
check git 'cd r && echo y >> a && git status --short && git diff --stat | tail -1' $' M a\n 1 file changed, 1 insertion(+)'
check git 'git clone -q r c && cd c && git worktree add -q ../w && git -C ../w rev-parse --abbrev-ref HEAD' w
check sqlite3 'sqlite3 d "create table t (a); insert into t values (1); select * from t"' 1
check sqlite3 'sqlite3 d "pragma journal_mode = wal; insert into t values (2); select count(*) from t"' $'wal\n2'
check sqlite3 'for i in 1 2 3 4; do sqlite3 d ".timeout 20000" "insert into t values (3)" & done; wait; sqlite3 d "select count(*) from t"' 6
check make 'make -s -j2 | sort' $'a\nb'
check gcc 'echo "int main(void) { return 7; }" > a.c && gcc a.c -o a.out && ./a.out; echo $?' 7
check perl 'perl -MSocket -MPOSIX=strftime -e "socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; print strftime(q(%Y), gmtime(0))"' 1970
check npm 'npm run -s say' x
check node 'node -e "require(\"child_process\").fork(\"/dev/null\").on(\"exit\", code => console.log(code))"' 0
check jq 'echo "{\"a\": 1}" | jq .a' 1
check openssl 'openssl dgst -sha256 -r Makefile | wc -w' 2
check zip 'zip -q a.zip Makefile && unzip -Z1 a.zip' Makefile
check xz 'xz -k Makefile && xz -dc Makefile.xz | head -1' 'all: a b'
check sort 'seq 200000 | sort -R -S 256K --parallel=2 | sort -n -S 256K | tail -1' 200000
check xargs 'seq 20 | xargs -P 8 -n 1 echo | wc -l' 20
check curl 'curl -s "file://$HOME/Makefile" | head -1' 'all: a b'
check bc 'echo 1 + 1 | bc' 2
echo "$count programs"
