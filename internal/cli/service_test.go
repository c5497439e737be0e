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
	write := filepath.Join(h.Prefix, "srv/patchbay/letter.txt")
	if err := os.WriteFile(write, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.DryRun = false
	if err := c.install(t.Context(), sh, h); err == nil || !strings.Contains(err.Error(), "left alone") {
		t.Errorf("the folder of others is given away: %v", err)
	}
	for _, flags := range [][]string{{"--listn", ":1"}, {"--listen", "nowhere"}, {"more"}} {
		c.Flags = flags
		if err := c.install(t.Context(), sh, h); err == nil || exitCode(err) != exitUsage {
			t.Errorf("%v: %v", flags, err)
		}
	}
	c.DryRun = true // not even shown
	c.Flags = []string{"--database-url", "postgres://ada:hunter22@db/patchbay"}
	if err := c.install(t.Context(), sh, h); err == nil || exitCode(err) != exitUsage ||
		!strings.Contains(err.Error(), "--database-url-file") || strings.Contains(err.Error(), "hunter22") {
		t.Errorf("a secret among the flags: %v", err)
	}
	secret := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(secret, []byte("postgres://ada:hunter22@db/patchbay"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Flags = []string{"--database-url-file", secret}
	if err := c.install(t.Context(), sh, h); err != nil {
		t.Errorf("the file of a secret: %v", err)
	}
	c.DryRun = false
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
	h.HasAccount = func(string) bool { return false }
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(h.Prefix, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, other := filepath.Join(h.Prefix, "srv"), filepath.Join(h.Prefix, h.Data())
	write("etc/systemd/system/patchbay.service", service.Unit(service.Spec{Binary: "/usr/bin/patchbay", Data: "/srv",
		Account: "ada"}))
	write("srv/letter.txt", "")
	write(h.Data()+"/installation", "")
	c := serviceUninstallCmd{Purge: true, Yes: true}
	fakeSystemctl(t, runningState)
	sh := newShell(strings.NewReader("n\n"), &out, &errs, nil)
	if err := c.uninstall(t.Context(), sh, h); err == nil || !strings.Contains(err.Error(), "left alone") || !isThere(data) {
		t.Errorf("removed what is not ours: %v", err)
	}
	write("srv/installation", "")
	c.Data = h.Data()
	if err := c.uninstall(t.Context(), sh, h); err == nil || !strings.Contains(err.Error(), "/srv") || !isThere(other) {
		t.Errorf("removed another folder than that of the service: %v", err)
	}
	c.Data, c.Yes = "", false
	if err := c.uninstall(t.Context(), sh, h); exitCode(err) != exitFailed || !isThere(data) {
		t.Errorf("removed without a yes: %v", err)
	}
	c.Yes = true
	if err := c.uninstall(t.Context(), sh, h); err != nil || isThere(data) || !isThere(other) {
		t.Errorf("not purged: %v", err)
	}
	if !strings.Contains(out.String(), "its data in /srv are removed") {
		t.Errorf("said %s", out.String())
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
