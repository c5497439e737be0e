package main

import (
	"bufio"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// debianRoot returns a fresh minimal Debian, of the release of this machine. It is made once, which
// takes a minute, and kept as an archive in the cache of the person.
func debianRoot(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a root needs the rights of root")
	}
	needs(t, "debootstrap", "dpkg", "chroot", "tar")
	suite := strings.TrimSpace(run(t, "sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME"))
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(cache, "patchbay-tests", "debian-"+suite+".tar")
	root := t.TempDir()
	if _, err := os.Stat(archive); err == nil {
		run(t, "tar", "-xf", archive, "-C", root)
		return root
	}
	out, err := exec.CommandContext(t.Context(), "debootstrap", "--variant=minbase", "--include=systemd", suite, root).CombinedOutput()
	if err != nil {
		t.Skipf("debootstrap: %v: %s", err, out) // no mirror can be reached, which is no fault of the project
	}
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "tar", "-cf", archive+".part", "-C", root, ".")
	if err := os.Rename(archive+".part", archive); err != nil {
		t.Fatal(err)
	}
	return root
}

// debian is a Debian in a folder.
type debian struct {
	t    *testing.T
	root string
}

// run runs a command in it as root.
func (d debian) run(words ...string) string {
	d.t.Helper()
	return run(d.t, append([]string{"chroot", d.root, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, words...)...)
}

// patchbay runs a command of the program in it as the account of the service.
func (d debian) patchbay(words ...string) string {
	d.t.Helper()
	return run(d.t, append([]string{"chroot", "--userspec=patchbay:patchbay", d.root, "env", "-i", "HOME=/var/lib/patchbay",
		"PATCHBAY_DATA=/var/lib/patchbay", "/usr/bin/patchbay"}, words...)...)
}

// install installs a package.
func (d debian) install(path string) {
	d.t.Helper()
	inside := "/tmp/" + filepath.Base(path)
	run(d.t, "cp", path, d.root+inside)
	d.run("dpkg", "-i", inside)
	d.run("rm", inside)
}

// serve starts the server as the unit does, but for the port, and returns once it serves. Stop ends
// it as systemd would.
func (d debian) serve() (stop func()) {
	d.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(d.t.Context()), "chroot", "--userspec=patchbay:patchbay", d.root, "env", "-i",
		"/usr/bin/patchbay", "serve", "--data", "/var/lib/patchbay", "--config", "/etc/patchbay/patchbay.yaml", "--listen", "127.0.0.1:0")
	logs, err := cmd.StderrPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	kill := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() }) //nolint:errcheck // it may have ended
	lines := bufio.NewScanner(logs)
	var seen []string
	for lines.Scan() {
		seen = append(seen, lines.Text())
		if strings.Contains(lines.Text(), "msg=serving") {
			break
		}
	}
	if len(seen) == 0 || !strings.Contains(seen[len(seen)-1], "msg=serving") {
		cmd.Wait() //nolint:errcheck // what it said is more
		d.t.Fatalf("the server does not serve: %s", strings.Join(seen, "\n"))
	}
	ended := make(chan struct{})
	go func() { // so that the server is not stopped by a full pipe
		defer close(ended)
		for lines.Scan() {
		}
	}()
	return func() {
		defer kill.Stop()
		cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // the test fails below
		<-ended
		if err := cmd.Wait(); err != nil {
			d.t.Errorf("the server ended with %v", err)
		}
	}
}

// changing are what installing any package changes.
var changing = []string{"var/lib/dpkg", "var/log", "var/cache", "tmp", "etc/passwd-", "etc/shadow-", "etc/group-",
	"etc/gshadow-", "etc/subuid-", "etc/subgid-", "etc/.pwd.lock", "proc", "sys", "dev", "run"}

// files lists everything in it.
func (d debian) files() (list []string) {
	d.t.Helper()
	err := filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(d.root, path) //nolint:errcheck // it is below
		if err != nil {
			return err
		}
		if slices.Contains(changing, rel) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		list = append(list, rel)
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return list
}

// TestDebian installs the package in a minimal Debian, uses it, upgrades it with its data, and
// removes it without a rest.
func TestDebian(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	d := debian{t, debianRoot(t)}
	before, accounts := d.files(), d.run("cat", "/etc/passwd", "/etc/group")
	d.install(pack(t, earlier(t), "1.2.0-rc.1", "deb"))
	for _, c := range []struct{ path, want string }{
		{"/var/lib/patchbay", "patchbay patchbay 700"},
		{"/etc/patchbay/patchbay.yaml", "root patchbay 640"},
		{"/etc/patchbay/patchbay.env", "root root 600"},
		{"/etc/systemd/system/multi-user.target.wants/patchbay.service", "root root 777"}, // it is enabled
	} {
		if got := strings.TrimSpace(d.run("stat", "-c", "%U %G %a", c.path)); got != c.want {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
	}
	d.verifyUnit()
	run(t, "sh", "-c", "printf 'lang: en\\n' > "+d.root+"/etc/patchbay/patchbay.yaml")
	if out := d.patchbay("demo"); !strings.Contains(out, "Patchbay") {
		t.Errorf("the demo says %s", out)
	}

	stop := d.serve()
	d.patchbay("user", "add", "ada", "--json")
	d.patchbay("bot", "add", "--name", "parrot", "--kind", "echo")
	if out := d.patchbay("ask", "parrot", "is the kettle on?"); !strings.Contains(out, "is the kettle on?") {
		t.Errorf("the bot answers %s", out)
	}
	turn := firstTurn(d.patchbay("bot", "show", "parrot", "--json"))
	stop()

	d.install(whole(t, "1.2.0", "deb"))
	if got := d.run("cat", "/etc/patchbay/patchbay.yaml"); got != "lang: en\n" {
		t.Errorf("the upgrade changed the settings: %s", got)
	}
	stop = d.serve()
	if out := d.patchbay("bot", "show", "parrot", "--json"); turn == "" || firstTurn(out) != turn {
		t.Errorf("turn %q is not in the records any more: %s", turn, out)
	}
	stop()

	d.run("dpkg", "--remove", "patchbay")
	if out := d.run("ls", "/var/lib/patchbay/patchbay.db"); out == "" {
		t.Error("removing the package removed the data")
	}
	d.run("dpkg", "--purge", "patchbay")
	after := d.files()
	for _, path := range after {
		if !slices.Contains(before, path) {
			t.Errorf("purged, and there is still %s", path)
		}
	}
	for _, path := range before {
		if !slices.Contains(after, path) {
			t.Errorf("purged, and this is gone: %s", path)
		}
	}
	if now := d.run("cat", "/etc/passwd", "/etc/group"); now != accounts {
		t.Errorf("accounts before:\n%s\nafter:\n%s", accounts, now)
	}
}

// turnID matches the id of a turn in the records of a bot.
var turnID = regexp.MustCompile(`"turn": "([^"]+)"`)

// firstTurn returns the id of the newest turn; empty: there is none.
func firstTurn(records string) string {
	if m := turnID.FindStringSubmatch(records); m != nil {
		return m[1]
	}
	return ""
}

// verifyUnit has systemd of the new system read the unit.
func (d debian) verifyUnit() {
	d.t.Helper()
	out := d.run("systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/patchbay.service")
	if strings.Contains(out, "patchbay.service") {
		d.t.Errorf("systemd says %s", out)
	}
}
