package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/service"
)

// linuxHost is a machine with systemd, whose files are in a folder of the test.
func linuxHost(t *testing.T) service.Host {
	return service.Host{OS: "linux", Root: true, Home: "/home/ada", ConfigHome: "/home/ada/.config", Systemd: true,
		HasAccount: func(string) bool { return true }, Prefix: t.TempDir()}
}

// fakeSystemctl puts a systemctl on the PATH that does nothing but report a state.
func fakeSystemctl(t *testing.T, state string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\ncase \"$*\" in *show*) printf '" + state + "';; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

const runningState = `LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nMainPID=42\n` +
	`FragmentPath=/etc/systemd/system/patchbay.service\nExecStart={ path=/usr/local/bin/patchbay ; argv[]=x }\n`

func TestServiceInstall(t *testing.T) {
	var out, errs strings.Builder
	sh := newShell(strings.NewReader(""), &out, &errs, nil)
	h := linuxHost(t)
	fakeSystemctl(t, "LoadState=not-found")
	c := serviceInstallCmd{Flags: []string{"--listen", ":3000"}}
	c.Data = "/srv/patchbay"
	c.Account = "root" // the data folder is given to it
	if err := c.install(t.Context(), sh, h); err != nil && !strings.Contains(err.Error(), "chown") {
		t.Fatal(err)
	}
	c.DryRun = true
	if err := c.install(t.Context(), sh, h); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"write /etc/systemd/system/patchbay.service\n", "serve --data /srv/patchbay --listen :3000\n",
		"User=root\n", "ReadWritePaths=/srv/patchbay\n", "systemctl restart patchbay.service\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
	for _, flags := range [][]string{{"--listn", ":1"}, {"--listen", "nowhere"}, {"more"}} {
		c.Flags = flags
		if err := c.install(t.Context(), sh, h); err == nil || exitCode(err) != exitUsage {
			t.Errorf("%v: %v", flags, err)
		}
	}
	c.Flags, c.Config = nil, filepath.Join(t.TempDir(), "missing.yaml")
	if err := c.install(t.Context(), sh, h); err == nil {
		t.Error("installed with a configuration that is not there")
	}
}

func TestServiceStatus(t *testing.T) {
	var out, errs strings.Builder
	sh := newShell(strings.NewReader(""), &out, &errs, nil)
	h := linuxHost(t)
	fakeSystemctl(t, runningState)
	if err := (&serviceStatusCmd{}).show(t.Context(), sh, h); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/etc/systemd/system/patchbay.service", "active (running)", "42", "another one"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
	fakeSystemctl(t, "LoadState=not-found")
	sh.json = true
	out.Reset()
	if err := (&serviceStatusCmd{}).show(t.Context(), sh, h); exitCode(err) != exitFailed ||
		!strings.Contains(out.String(), `"installed": false`) {
		t.Errorf("%v, %s", err, out.String())
	}
}

func TestServiceUninstall(t *testing.T) {
	var out, errs strings.Builder
	h := linuxHost(t)
	data := filepath.Join(h.Prefix, "srv")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	c := serviceUninstallCmd{Purge: true}
	c.Data = "/srv"
	fakeSystemctl(t, runningState)
	sh := newShell(strings.NewReader("n\n"), &out, &errs, nil)
	h.HasAccount = func(string) bool { return false }
	if err := c.uninstall(t.Context(), sh, h); exitCode(err) != exitFailed || !isThere(data) {
		t.Errorf("removed without a yes: %v", err)
	}
	c.Yes = true
	if err := c.uninstall(t.Context(), sh, h); err != nil || isThere(data) {
		t.Errorf("not purged: %v", err)
	}
	fakeSystemctl(t, "LoadState=not-found")
	if err := c.uninstall(t.Context(), sh, h); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("removed twice: %v", err)
	}
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// The command that services of macOS and Windows run writes a log and returns the exit code.
func TestServiceRun(t *testing.T) {
	d := blankDesk(t)
	log := filepath.Join(t.TempDir(), "service.log")
	d.ok("service", "run", "--log", log, "--", "version")
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), "patchbay ") {
		t.Errorf("%q, %v", text, err)
	}
	if o := d.do("", "service", "run", "--log", log, "--", "bot", "list", "--config", "/nowhere.yaml"); o.code != exitFailed {
		t.Errorf("exit code %d of a command that fails", o.code)
	}
}
