// Package storetest provides tests with real databases: SQLite in a temporary folder, and
// PostgreSQL in a temporary cluster that is started where the server's programs are installed.
package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"patchbay/internal/store"
)

// Each runs a test on every kind of database. run gets the options of a fresh database; opening it
// again with the same options finds the same data.
func Each(t *testing.T, run func(t *testing.T, o store.Options)) {
	t.Run("sqlite", func(t *testing.T) { run(t, store.Options{Folder: Folder(t, t.TempDir())}) })
	t.Run("postgres", func(t *testing.T) { run(t, Postgres(t)) })
}

// EachBlank is [Each] with databases that have no tables yet.
func EachBlank(t *testing.T, run func(t *testing.T, o store.Options)) {
	t.Run("sqlite", func(t *testing.T) { run(t, store.Options{Folder: t.TempDir()}) })
	t.Run("postgres", func(t *testing.T) { run(t, Blank(t)) })
}

// Open opens a database and closes it when the test ends. It creates a migrated SQLite database if
// there is none.
func Open(t testing.TB, o store.Options) *store.DB {
	t.Helper()
	if o.URL == "" {
		Folder(t, o.Folder)
	}
	db, err := store.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// SQLite opens a fresh SQLite database.
func SQLite(t testing.TB) *store.DB { return Open(t, store.Options{Folder: t.TempDir()}) }

// Variable is the environment variable with the address of a server that several test programs
// share. Without it each program starts its own.
const Variable = "STORETEST_POSTGRES"

var (
	cluster struct {
		sync.Once
		server *Server
		err    error
	}
	databases atomic.Int64
)

func startCluster() {
	s := &Server{addr: os.Getenv(Variable)}
	if s.addr == "" {
		if s, cluster.err = StartServer(false); cluster.err != nil {
			return
		}
	}
	cluster.server = s
	cluster.err = migratedDatabase(s)
}

// Postgres creates a migrated, empty PostgreSQL database. Without the server's programs the test is
// skipped, or fails where CI is set. The package's TestMain must be [Main].
func Postgres(t testing.TB) store.Options { return create(t, template) }

// Blank is [Postgres] with a database that has no tables yet.
func Blank(t testing.TB) store.Options { return create(t, "template1") }

func create(t testing.TB, template string) store.Options {
	t.Helper()
	cluster.Do(startCluster)
	if errors.Is(cluster.err, errNotInstalled) && os.Getenv("CI") == "" {
		t.Skip("PostgreSQL's server programs are not installed (Debian: apt-get install postgresql)")
	}
	if cluster.err != nil {
		t.Fatal(cluster.err)
	}
	name := fmt.Sprintf("patchbay_%d_%d", os.Getpid(), databases.Add(1))
	if err := cluster.server.exec("CREATE DATABASE " + name + " TEMPLATE " + template); err != nil {
		t.Fatal(err)
	}
	if cluster.server.shared() {
		// A server shared by many tests would fill the disk.
		t.Cleanup(func() { cluster.server.exec("DROP DATABASE " + name + " WITH (FORCE)") }) //nolint:errcheck // it ends with the server
	}
	return store.Options{URL: cluster.server.URL(name), Folder: t.TempDir()}
}

// exec runs a statement that is not about one database, such as CREATE DATABASE.
func (s *Server) exec(statement string) error {
	admin, err := sql.Open("pgx", s.URL("postgres"))
	if err != nil {
		return err
	}
	defer admin.Close()
	_, err = admin.Exec(statement)
	return err
}

// Main runs a package's tests and stops the cluster they started. It returns, so that TestMain can
// clean up; package testing then exits with the code of the tests.
func Main(m *testing.M) {
	m.Run()
	if s := cluster.server; s != nil && !s.shared() {
		s.Close()
	}
}

var errNotInstalled = errors.New("PostgreSQL's server programs are not installed")

// Durable starts a cluster with fsync and enough memory, as in production, for benchmarks. url
// returns the address of a database; "postgres" exists.
func Durable() (url func(database string) string, stop func(), err error) {
	s, err := StartServer(true)
	if err != nil {
		return nil, nil, err
	}
	return s.URL, s.Close, nil
}

// sharedBuffers is what servers for benchmarks keep of the database in memory. PostgreSQL's own
// default of 128 MB is for the smallest machines; a quarter of the memory is recommended
// (https://www.postgresql.org/docs/current/runtime-config-resource.html), here of one with 4 GB.
const sharedBuffers = "1GB"

// Server is a PostgreSQL server that tests can stop and start.
type Server struct {
	bin, dir   string
	fsync      bool   // commits wait for the disk
	addr       string // host and port
	credential *syscall.Credential
	cmd        *exec.Cmd // nil: stopped
}

// StartServer starts a server with an empty cluster in a temporary folder, and waits until it
// answers. The database "postgres" exists. The caller must call Close.
func StartServer(fsync bool) (_ *Server, err error) {
	s := &Server{fsync: fsync}
	if s.bin, err = findPrograms(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "patchbay-pg-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.credential, err = serverUser(s.dir); err != nil {
		return nil, err
	}
	initdb := exec.Command(filepath.Join(s.bin, "initdb"), "-D", s.data(), "-U", "patchbay", "-A", "trust", "-E",
		"UTF8", "--no-locale", "--no-sync")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential}
	initdb.Dir = s.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if s.addr, err = freeAddress(); err != nil {
		return nil, err
	}
	err = s.Start()
	return s, err
}

// shared reports whether another process started the server.
func (s *Server) shared() bool { return s.dir == "" }

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Start restarts the server on the same port, and waits until it answers.
func (s *Server) Start() error {
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	args := []string{"-D", s.data(), "-k", s.dir, "-h", host, "-p", port,
		"-c", "fsync=" + strconv.FormatBool(s.fsync), "-c", "max_connections=1000", "-c", "log_min_messages=panic"}
	if s.fsync {
		args = append(args, "-c", "shared_buffers="+sharedBuffers)
	}
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), args...)
	// Pdeathsig ends the server with the test program, even if that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential, Pdeathsig: syscall.SIGQUIT}
	cmd.Dir = s.dir
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	return waitForServer(s.URL("postgres"))
}

// Addr returns the host and port of the server.
func (s *Server) Addr() string { return s.addr }

// URL returns the address of a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://patchbay@%s/%s?sslmode=disable", s.Addr(), database)
}

// Stop stops the server at once without notifying clients (immediate shutdown), as a crash does.
// Committed data is there after the next [Server.Start].
func (s *Server) Stop() { s.end(syscall.SIGQUIT) }

// Shutdown stops the server and notifies its clients (fast shutdown).
func (s *Server) Shutdown() { s.end(syscall.SIGINT) }

// Kill kills the server and its child processes.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	parent := strconv.Itoa(s.cmd.Process.Pid)
	list, _ := os.ReadFile(filepath.Join("/proc", parent, "task", parent, "children"))
	s.end(syscall.SIGKILL)
	for _, child := range strings.Fields(string(list)) {
		if pid, err := strconv.Atoi(child); err == nil {
			syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it has ended already
		}
	}
}

func (s *Server) end(signal os.Signal) {
	if s.cmd != nil {
		s.cmd.Process.Signal(signal) //nolint:errcheck // it has ended already
		s.cmd.Wait()                 //nolint:errcheck // the exit status is that of the signal
		s.cmd = nil
	}
}

// Close stops the server and removes its data.
func (s *Server) Close() {
	s.Stop()
	os.RemoveAll(s.dir)
}

func waitForServer(url string) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err = db.PingContext(ctx); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL did not come up: %w", err)
		}
	}
}

// findPrograms returns the folder of the newest server programs, where Debian installs them, or of
// those on PATH.
func findPrograms() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	if p, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(p), nil
	}
	return "", errNotInstalled
}

// serverUser returns the user that runs the server, nil for the current one. PostgreSQL refuses to
// run as root, so root gives the folder to another user.
func serverUser(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Rows returns all rows of all tables of a database as sorted texts, by table. For SQLite's
// full-text table it returns only the number of rows.
func Rows(t testing.TB, o store.Options) map[string][]string {
	t.Helper()
	driver, name := "pgx", o.URL
	tables := `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_name <> 'goose_db_version'`
	if name == "" {
		driver, name = "sqlite", filepath.Join(o.Folder, store.FileName)
		tables = `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'learn_words_%' AND name <> 'goose_db_version'`
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	all := map[string][]string{}
	for _, table := range rowsOf(t, db, tables) {
		query := `SELECT * FROM ` + table
		if table == "learn_words" {
			query = `SELECT COUNT(*) FROM learn_words`
		}
		all[table] = rowsOf(t, db, query)
	}
	return all
}

func rowsOf(t testing.TB, db *sql.DB, query string) (out []string) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		texts := make([]string, len(values))
		for i, v := range values {
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			texts[i] = fmt.Sprint(v)
		}
		out = append(out, strings.Join(texts, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}
