package service

import (
	"strings"
	"testing"
)

// The data folder and the account of a service are those that it was installed with.
func TestInstalled(t *testing.T) {
	fake(t, map[string]string{"systemctl": loaded, "launchctl": "exit 1"})
	for _, system := range []string{"linux", "darwin"} {
		for _, data := range []string{"/srv/patchbay", `/srv/my "data"/100%/$x\y & z`} {
			h := host(t, system)
			s := Spec{Binary: "/usr/local/bin/patchbay", Data: data, Account: "ada", Flags: []string{"--listen", ":1"}}
			for _, step := range h.Install(s) {
				if step.Write != "" {
					if err := h.do(t.Context(), step); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, err := h.Installed(t.Context(), Spec{Data: "/elsewhere", Account: Name})
			if err != nil || got.Data != data || got.Account != "ada" {
				t.Errorf("%s: %+v, %v", system, got, err)
			}
		}
	}
	fake(t, map[string]string{"sc.exe": `case "$1" in qc) cat <<'X'
        BINARY_PATH_NAME   : "C:\Program Files\patchbay.exe" service run --log "D:\a  b\service.log" -- serve --data "D:\a  b"
X
esac`})
	got, err := host(t, "windows").Installed(t.Context(), Spec{Data: `C:\ProgramData\Patchbay`})
	if err != nil || got.Data != `D:\a  b` {
		t.Errorf("windows: %+v, %v", got, err)
	}
}

func TestCheckFolder(t *testing.T) {
	h := host(t, "linux")
	never := func(string) bool { return false }
	write := func(name string) {
		t.Helper()
		if err := h.do(t.Context(), Step{Write: name, Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.CheckFolder("/srv", never); err != nil {
		t.Errorf("a missing one: %v", err)
	}
	write("/srv/" + logName)
	write("/srv/lost+found/x")
	if err := h.CheckFolder("/srv", never); err != nil {
		t.Errorf("with a log: %v", err)
	}
	write("/srv/letters.txt")
	if err := h.CheckFolder("/srv", never); err == nil || !strings.Contains(err.Error(), "left alone") {
		t.Errorf("with files of others: %v", err)
	}
	if err := h.CheckFolder("/srv", func(f string) bool { return f == h.path("/srv") }); err != nil {
		t.Errorf("with our files: %v", err)
	}
}
