package collector

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// postgres is a server of its own for a test: on a free port of this machine, in
// a folder that goes away, without syncing to disk.
type postgres struct {
	t    testing.TB
	bin  string
	dir  string
	port int
	// owner runs it: PostgreSQL refuses to run as root.
	owner *syscall.Credential
}

const postgresPassword = "super-secret"

// startPostgres makes a cluster and starts it.
func startPostgres(t testing.TB) *postgres {
	t.Helper()
	p := &postgres{t: t, bin: postgresBin(t), dir: filepath.Join(t.TempDir(), "data"), port: freePort(t)}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		p.giveAway()
	}
	password := filepath.Join(p.dir, "..", "password")
	if err := os.WriteFile(password, []byte(postgresPassword), 0o644); err != nil {
		t.Fatal(err)
	}
	p.run("initdb", "-D", p.dir, "-U", "postgres", "-A", "scram-sha-256", "--pwfile="+password, "-E", "UTF8", "--locale=C", "-N")
	p.start()
	t.Cleanup(p.stop)
	return p
}

// postgresBin finds where Debian keeps the server's programs.
func postgresBin(t testing.TB) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		t.Fatal("no PostgreSQL server here: make setup installs it, or apt-get install postgresql")
	}
	return filepath.Dir(path)
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// giveAway hands the folder to a user that the server may run as.
func (p *postgres) giveAway() {
	p.t.Helper()
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		p.t.Fatal(err)
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	if errUID != nil || errGID != nil {
		p.t.Fatalf("user %s has the ids %s and %s", u.Username, u.Uid, u.Gid)
	}
	p.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if err := os.Chown(p.dir, int(uid), int(gid)); err != nil {
		p.t.Fatal(err)
	}
	// The folders above are for their maker alone.
	for dir := filepath.Dir(p.dir); dir != filepath.Dir(os.TempDir()) && dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *postgres) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, name), args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.owner}
	return cmd
}

func (p *postgres) run(name string, args ...string) {
	p.t.Helper()
	if out, err := p.command(p.t.Context(), name, args...).CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// start starts the server and returns when it answers.
func (p *postgres) start() {
	p.t.Helper()
	options := fmt.Sprintf("-c listen_addresses=127.0.0.1 -c port=%d -c unix_socket_directories= -c fsync=off -c full_page_writes=off -c max_connections=30", p.port)
	p.run("pg_ctl", "-D", p.dir, "-l", filepath.Join(p.dir, "server.log"), "-w", "-t", "60", "-o", options, "start")
}

func (p *postgres) stop() {
	// The test's context has ended when cleanups run.
	_ = p.command(context.Background(), "pg_ctl", "-D", p.dir, "-m", "immediate", "-w", "stop").Run() // stopped already
}

// dsn is the address of a database on the server.
func (p *postgres) dsn(user, password, database string) string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?sslmode=disable", user, password, p.port, url.PathEscape(database))
}

// connect opens a connection as the server's own user.
func (p *postgres) connect(t testing.TB, database string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.dsn("postgres", postgresPassword, database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

// database makes a database and returns a connection to it.
func (p *postgres) database(t testing.TB, name string) *pgx.Conn {
	t.Helper()
	mustExec(t, p.connect(t, "postgres"), "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	return p.connect(t, name)
}

// mustExec runs statements, several at once too.
func mustExec(t testing.TB, conn *pgx.Conn, sql ...string) {
	t.Helper()
	for _, s := range sql {
		if _, err := conn.PgConn().Exec(t.Context(), s).ReadAll(); err != nil {
			t.Fatalf("%s: %v", strings.SplitN(s, "\n", 2)[0], err)
		}
	}
}
