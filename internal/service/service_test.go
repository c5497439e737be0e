package service

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// fake puts programs on the PATH that record how they are called, one call a line in the returned
// file, and then run a script.
func fake(t *testing.T, scripts map[string]string) (calls string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	for _, name := range []string{"useradd", "userdel", "chown", "systemctl", "launchctl"} {
		if _, ok := scripts[name]; !ok { // no test changes the machine
			scripts[name] = "echo 'not expected' >&2; exit 99"
		}
	}
	for name, script := range scripts {
		text := "#!/bin/sh\necho \"" + name + " $*\" >> '" + calls + "'\n" + script + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return calls
}

func recorded(t *testing.T, calls string) []string {
	t.Helper()
	text, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func wantCalls(t *testing.T, calls string, want ...string) {
	t.Helper()
	if got := recorded(t, calls); !slices.Equal(got, want) {
		t.Errorf("called:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func host(t *testing.T, system string) Host {
	t.Helper()
	prefix, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Host{OS: system, Root: true, UID: 501, Home: "/home/ada", ConfigHome: "/home/ada/.config",
		ProgramData: `C:\ProgramData`, Systemd: true, Prefix: prefix, Temp: "/tmp",
		HasAccount: func(string) bool { return false }}
}

const loaded = `cat <<'X'
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
MainPID=42
Result=success
FragmentPath=/etc/systemd/system/patchbay.service
ExecStart={ path=/usr/local/bin/patchbay ; argv[]=/usr/local/bin/patchbay serve ; ignore_errors=no }
X`

func TestSystemd(t *testing.T) {
	h := host(t, "linux")
	calls := fake(t, map[string]string{"systemctl": `case "$1" in show) echo LoadState=not-found;; esac`, "useradd": "",
		"loginctl": "exit 1"})
	s := Spec{Binary: "/usr/local/bin/patchbay", Data: h.Data(), Account: h.Account(), Flags: []string{"--listen", ":3000"}}
	if err := h.CheckInstall(t.Context(), s, false); err != nil {
		t.Fatal(err)
	}
	if err := h.Do(t.Context(), h.Install(s)); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, calls, "systemctl show patchbay.service --property="+shown,
		"useradd --system --user-group --no-create-home --home-dir /var/lib/patchbay --shell /usr/sbin/nologin patchbay",
		"systemctl daemon-reload", "systemctl enable patchbay.service", "systemctl restart patchbay.service")
	unit, err := os.ReadFile(h.path("/etc/systemd/system/patchbay.service"))
	if err != nil || !strings.Contains(string(unit),
		"ExecStart=/usr/local/bin/patchbay serve --data /var/lib/patchbay --listen :3000\n") {
		t.Errorf("%v, %s", err, unit)
	}

	calls = fake(t, map[string]string{"systemctl": loaded, "userdel": "exit 1"})
	state, err := h.State(t.Context(), false)
	want := State{Manager: "systemd", Installed: true, Running: true, AtBoot: true, PID: 42, Detail: "active (running)",
		File: "/etc/systemd/system/patchbay.service", Binary: "/usr/local/bin/patchbay"}
	if err != nil || state != want {
		t.Errorf("state %+v, %v", state, err)
	}
	if err := h.CheckInstall(t.Context(), s, false); err == nil || !strings.Contains(err.Error(), "installed already") {
		t.Errorf("installed twice: %v", err)
	}
	if err := h.CheckInstall(t.Context(), s, true); err != nil {
		t.Errorf("replaced: %v", err)
	}
	if err := os.Remove(calls); err != nil {
		t.Fatal(err)
	}
	if err := h.Do(t.Context(), h.Uninstall(s, false)); err != nil {
		t.Error(err)
	}
	wantCalls(t, calls, "systemctl disable --now patchbay.service", "systemctl daemon-reload",
		"systemctl reset-failed patchbay.service")
	if h.exists("/etc/systemd/system/patchbay.service") {
		t.Error("the unit is still there")
	}
	h.HasAccount = func(string) bool { return true }
	if steps := h.Uninstall(s, true); steps[len(steps)-2].Remove != "/var/lib/patchbay" ||
		steps[len(steps)-1].String() != "userdel patchbay" {
		t.Errorf("purge: %v", steps)
	}
}

func TestSystemdOfAPerson(t *testing.T) {
	h := host(t, "linux")
	h.Root = false
	calls := fake(t, map[string]string{"systemctl": "", "loginctl": "exit 1"}) // lingering is not allowed everywhere
	s := Spec{Binary: "/home/ada/patchbay", Data: "/home/ada/data", User: true}
	if err := h.Do(t.Context(), h.Install(s)); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, calls, "systemctl --user daemon-reload", "systemctl --user enable patchbay.service",
		"systemctl --user restart patchbay.service", "loginctl enable-linger")
	unit, err := os.ReadFile(h.path("/home/ada/.config/systemd/user/patchbay.service"))
	if err != nil || strings.Contains(string(unit), "User=") || !strings.Contains(string(unit), "WantedBy=default.target") {
		t.Errorf("%v, %s", err, unit)
	}
	if words := h.manager().logs(s, true, 5); strings.Join(words, " ") !=
		"journalctl --user --unit patchbay.service --no-pager --lines 5 --follow" {
		t.Error(words)
	}
}

// TestRefusals checks that everything that cannot work is refused with a reason.
func TestRefusals(t *testing.T) {
	fake(t, map[string]string{"systemctl": "echo LoadState=not-found"})
	good := Spec{Binary: "/usr/local/bin/patchbay", Data: "/var/lib/patchbay", Account: Name}
	for name, c := range map[string]struct {
		change func(*Host, *Spec)
		want   string
	}{
		"no root":        {func(h *Host, _ *Spec) { h.Root = false }, "rights of root"},
		"no systemd":     {func(h *Host, _ *Spec) { h.Systemd = false }, "systemd does not run"},
		"other system":   {func(h *Host, _ *Spec) { h.OS = "plan9" }, "plan9"},
		"temporary":      {func(_ *Host, s *Spec) { s.Binary = "/tmp/go-build1/patchbay" }, "temporary files"},
		"windows person": {func(h *Host, s *Spec) { h.OS, s.User = "windows", true }, "no services of a person"},
		"windows rights": {func(h *Host, _ *Spec) { h.OS, h.Root = "windows", false }, "administrator"},
		"env file":       {func(h *Host, s *Spec) { h.OS, s.EnvFile = "darwin", "/etc/env" }, "systemd only"},
		"no account":     {func(h *Host, s *Spec) { h.OS, s.Account = "darwin", "" }, "--account"},
		"closed folder": {func(h *Host, s *Spec) {
			if err := os.MkdirAll(h.path("/opt/ada/bin"), 0o700); err != nil {
				t.Fatal(err)
			}
			s.Binary = "/opt/ada/bin/patchbay"
		}, "cannot reach"},
		"home folder":   {func(_ *Host, s *Spec) { s.Binary = "/home/ada/patchbay" }, "cannot see"},
		"root's folder": {func(_ *Host, s *Spec) { s.Config = "/root/patchbay.yaml" }, "cannot see"},
		"var tmp": {func(_ *Host, s *Spec) { s.Config, s.Data = "/var/tmp/patchbay.yaml", "/home/ada/data" },
			"cannot see"},
		"link": {func(h *Host, s *Spec) {
			real := h.path("/home/ada/patchbay")
			for _, name := range []string{"/home/ada/patchbay", "/opt/bin/other"} {
				if err := h.do(t.Context(), Step{Write: name, Mode: 0o755}); err != nil {
					t.Fatal(err)
				}
			}
			s.Binary = "/opt/bin/patchbay"
			if err := os.Symlink(real, h.path(s.Binary)); err != nil {
				t.Fatal(err)
			}
		}, "cannot see"},
		"packaged": {func(h *Host, _ *Spec) {
			if err := h.do(t.Context(), Step{Write: packagedUnits[0], Mode: 0o644}); err != nil {
				t.Fatal(err)
			}
		}, "comes with the package"},
	} {
		t.Run(name, func(t *testing.T) {
			h, s := host(t, "linux"), good
			c.change(&h, &s)
			if err := h.CheckInstall(t.Context(), s, false); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
	h := host(t, "linux")
	good.Config = "/home/ada/patchbay.yaml"
	if good.Data = "/home/ada/data"; h.CheckInstall(t.Context(), good, false) != nil {
		t.Error("settings beside the data are refused")
	}
	if err := h.CheckUninstall(t.Context(), false); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("uninstall of nothing: %v", err)
	}
	fake(t, map[string]string{"systemctl": "echo 'Access denied' >&2; exit 4", "useradd": "", "chown": ""})
	if err := h.Do(t.Context(), h.Install(good)); err == nil || !strings.Contains(err.Error(), "Access denied") {
		t.Errorf("a failed command: %v", err)
	}
}

// TestUnitIsValid has systemd itself read the units, where it is installed.
func TestUnitIsValid(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("systemd-analyze is not installed")
		}
		t.Skip("systemd-analyze is not installed")
	}
	for name, s := range map[string]Spec{
		"default": {Data: defaultState, Account: "root"},
		"full": {Data: "/srv/my data/100%", Config: "/etc/a b/$x.yaml", EnvFile: "/etc/a b.env", Account: "root",
			Flags: []string{"--waiting-text", `a "quoted" \ word; $HOME 50%`}},
		"person": {Data: "/home/ada/d", User: true},
	} {
		s.Binary = "/bin/true"
		file := filepath.Join(t.TempDir(), unitName)
		text := strings.Replace(Unit(s), "Documentation=man:patchbay(1)\n", "", 1) // it is not installed here
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput()
		if err != nil || strings.Contains(string(out), unitName) {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

func TestLaunchd(t *testing.T) {
	h := host(t, "darwin")
	h.Sudoer = "ada"
	calls := fake(t, map[string]string{"chown": "", "launchctl": `case "$1" in
print) printf 'system/patchbay = {\n\tstate = running\n\tprogram = /usr/local/bin/patchbay\n\tpid = 77\n\tendpoints = {\n\t\tstate = other\n\t}\n}\n';;
bootout) exit 3;;
bootstrap) test -e "$0.tried" || { touch "$0.tried"; exit 5; };;
esac`})
	s := Spec{Binary: "/usr/local/bin/patchbay", Data: h.Data(), Account: h.Account(), Flags: []string{"--listen", "<&>"}}
	if err := h.Do(t.Context(), h.Install(s)); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, calls, "chown -R ada /usr/local/var/patchbay", "launchctl bootout system/patchbay",
		"launchctl enable system/patchbay", "launchctl bootstrap system /Library/LaunchDaemons/patchbay.plist",
		"launchctl bootstrap system /Library/LaunchDaemons/patchbay.plist") // the earlier process had not ended
	text, err := os.ReadFile(h.path("/Library/LaunchDaemons/patchbay.plist"))
	if err != nil {
		t.Fatal(err)
	}
	words := plistStrings(t, text)
	for _, want := range []string{"/usr/local/bin/patchbay", "service", "run", "/usr/local/var/patchbay/service.log", "--",
		"serve", "<&>", "ada"} {
		if !slices.Contains(words, want) {
			t.Errorf("%q is not in %q", want, words)
		}
	}
	state, err := h.State(t.Context(), false)
	want := State{Manager: "launchd", Installed: true, Running: true, AtBoot: true, PID: 77, Detail: "running",
		File: "/Library/LaunchDaemons/patchbay.plist", Binary: "/usr/local/bin/patchbay"}
	if err != nil || state != want {
		t.Errorf("state %+v, %v", state, err)
	}
	if err := h.Do(t.Context(), h.Uninstall(s, true)); err != nil {
		t.Error(err)
	}
	if state, err := h.State(t.Context(), false); err != nil || state.Installed || h.exists(s.Data) {
		t.Errorf("after purge: %+v, %v", state, err)
	}
	s.User, s.Account = true, ""
	if steps := h.Install(s); steps[len(steps)-1].String() !=
		"launchctl bootstrap gui/501 /home/ada/Library/LaunchAgents/patchbay.plist" {
		t.Errorf("of a person: %v", steps)
	}
}

// plistStrings checks that a property list is well-formed, and returns its strings.
func plistStrings(t *testing.T, text []byte) (list []string) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "string" {
			var s string
			if err := d.DecodeElement(&s, &start); err != nil {
				t.Fatal(err)
			}
			list = append(list, s)
		}
	}
}

func TestWindows(t *testing.T) {
	h := host(t, "windows")
	s := Spec{Binary: `C:\Program Files\Patchbay\patchbay.exe`, Data: h.Data(), Account: h.Account(),
		Flags: []string{"--listen", ":3000"}}
	var create Step
	var plan []string
	for _, step := range h.Install(s) {
		plan = append(plan, step.String())
		if len(step.Run) > 1 && step.Run[1] == "create" {
			create = step
		}
	}
	want := `"C:\Program Files\Patchbay\patchbay.exe" service run --log C:\ProgramData\Patchbay\service.log -- serve` +
		` --data C:\ProgramData\Patchbay --listen :3000`
	if i := slices.Index(create.Run, "binPath="); i < 0 || create.Run[i+1] != want ||
		!slices.Contains(create.Run, `NT SERVICE\patchbay`) {
		t.Errorf("%q", create.Run)
	}
	wantInOrder(t, plan, "sc.exe failure patchbay", "sc.exe failureflag patchbay 1",
		`icacls.exe 'C:\ProgramData\Patchbay' /setowner '*S-1-5-32-544' /T`, `icacls.exe 'C:\ProgramData\Patchbay' /reset /T`,
		`icacls.exe 'C:\ProgramData\Patchbay' /inheritance:r`, "sc.exe start")
	calls := fake(t, map[string]string{"net.exe": "exit 2", "sc.exe": `case "$1" in
queryex) printf '\nSERVICE_NAME: patchbay\n        TYPE               : 10  WIN32_OWN_PROCESS\n        STATE              : 4  RUNNING\n        PID                : 812\n';;
qc) printf '        START_TYPE         : 2   AUTO_START  (DELAYED)\n        BINARY_PATH_NAME   : "C:\\a b\\patchbay.exe" service run\n';;
esac`})
	state, err := h.State(t.Context(), false)
	if err != nil || !state.Running || !state.AtBoot || state.PID != 812 || state.Binary != `C:\a b\patchbay.exe` {
		t.Errorf("state %+v, %v", state, err)
	}
	if err := os.Remove(calls); err != nil {
		t.Fatal(err)
	}
	if err := h.Do(t.Context(), h.Uninstall(s, false)); err != nil {
		t.Error(err)
	}
	wantCalls(t, calls, "net.exe stop patchbay", "sc.exe delete patchbay")
	fake(t, map[string]string{"sc.exe": "echo '[SC] EnumQueryServicesStatus:OpenService FAILED 1060:'; exit 36"})
	if state, err := h.State(t.Context(), false); err != nil || state.Installed {
		t.Errorf("without: %+v, %v", state, err)
	}
}

// wantInOrder checks that there are steps that begin with these texts, in this order.
func wantInOrder(t *testing.T, plan []string, want ...string) {
	t.Helper()
	for _, step := range plan {
		if len(want) > 0 && strings.HasPrefix(step, want[0]) {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("no %q in its place in:\n%s", want[0], strings.Join(plan, "\n"))
	}
}

func TestWindowsWords(t *testing.T) {
	for word, want := range map[string]string{`a`: `a`, ``: `""`, `a b`: `"a b"`, `C:\a b\`: `"C:\a b\\"`,
		`say "x"`: `"say \"x\""`, `a\"b`: `"a\\\"b"`} {
		if got := windowsWord(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
		if got := windowsWords("x " + want + " y"); !slices.Equal(got, []string{"x", word, "y"}) {
			t.Errorf("%s is read as %q", want, got)
		}
	}
}

func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	n := NewNotifier(path)
	for want, send := range map[string]func() error{"READY=1": n.Ready, "STOPPING=1": n.Stopping} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		if err := l.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if k, err := l.Read(buf); err != nil || string(buf[:k]) != want {
			t.Errorf("%q, %v; want %s", buf[:k], err, want)
		}
	}
	if err := (Notifier{}).Ready(); err != nil {
		t.Errorf("without systemd: %v", err)
	}
	if err := NewNotifier(path + "-gone").Ready(); err == nil {
		t.Error("nobody listens, and there is no error")
	}
}

func TestLogFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", logName)
	l, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.max = 20
	for _, line := range []string{"one one one\n", "two two two\n", "three three\n"} {
		if _, err := l.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	now, _ := os.ReadFile(path)
	old, _ := os.ReadFile(path + ".1")
	if string(now) != "three three\n" || string(old) != "two two two\n" {
		t.Errorf("%q after %q", now, old)
	}
}

// A log that could not be opened for a while is written to again.
func TestLogFileAfterAFault(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "logs")
	l, err := OpenLog(filepath.Join(folder, logName))
	if err != nil {
		t.Fatal(err)
	}
	l.max = 5
	write := func() error { _, err := l.Write([]byte("a line\n")); return err }
	if err := write(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(folder, folder+".away"); err != nil {
		t.Skip(err) // Windows does not rename a folder with an open file
	}
	for range 2 {
		if write() == nil {
			t.Fatal("written without a folder")
		}
	}
	if err := os.Rename(folder+".away", folder); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(write(), l.Close()); err != nil {
		t.Errorf("after it was there again: %v", err)
	}
}

func TestRunReturnsTheExitCode(t *testing.T) {
	code, err := Run(t.Context(), func(context.Context) int { return 7 })
	if code != 7 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
}
