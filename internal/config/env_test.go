package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	url := put("url", " postgres://u:hunter2@db/p\r\n")
	empty := put("empty", " \n")
	large := put("large", strings.Repeat("x", maxSecretFile+1))
	lines := put("lines", "postgres://u:hunter2@db/p\npostgres://u:hunter3@db/p\n")
	const want = "postgres://u:hunter2@db/p"
	for _, tt := range []struct {
		name  string
		yaml  string // written to dir
		env   []string
		flags map[string]string
		want  string // the value, or the problem with DIR
	}{
		{"environment", "", []string{"PATCHBAY_DATABASE_URL_FILE=" + url}, nil, want},
		{"file", "database: {url_file: " + url + "}", nil, nil, want},
		{"file, from its folder", "database: {url_file: url}", nil, nil, want},
		{"flag", "", nil, map[string]string{"database.url_file": url}, want},
		{"environment's file over file's value", "database: {url: postgres://other/p}",
			[]string{"PATCHBAY_DATABASE_URL_FILE=" + url}, nil, want},
		{"environment's value over file's file", "database: {url_file: no-such-file-is-read-later}", nil,
			map[string]string{"database.url": "postgres://x/y"},
			"database.url_file on line 1 of DIR/board.yaml names no-such-file-is-read-later, which cannot be read (no such file or directory): name a file that holds the value and that this account may read"},
		{"both in the environment", "", []string{"PATCHBAY_DATABASE_URL=postgres://x/y",
			"PATCHBAY_DATABASE_URL_FILE=" + url}, nil,
			"database.url in PATCHBAY_DATABASE_URL_FILE was given before, by PATCHBAY_DATABASE_URL: keep one of the two"},
		{"both in the file", "database:\n  url_file: url\n  url: postgres://x/y\n", nil, nil,
			"database.url on line 3 of DIR/board.yaml was given before, by line 2 of DIR/board.yaml: keep one of the two"},
		{"empty", "", []string{"PATCHBAY_DATABASE_URL_FILE=" + empty}, nil,
			`database.url_file in PATCHBAY_DATABASE_URL_FILE names "DIR/empty", which is empty: name a file that holds the value and that this account may read`},
		{"large", "", []string{"PATCHBAY_DATABASE_URL_FILE=" + large}, nil,
			`database.url_file in PATCHBAY_DATABASE_URL_FILE names "DIR/large", which is larger than 64KiB: name a file that holds the value and that this account may read`},
		{"several lines", "", []string{"PATCHBAY_DATABASE_URL_FILE=" + lines}, nil,
			"database.url in PATCHBAY_DATABASE_URL_FILE has a value of the wrong form: give text on one line, without control characters"},
		{"no name", "database: {url_file: \"\"}", nil, nil,
			`database.url_file on line 1 of DIR/board.yaml is "": give a path on one line, without control characters`},
		{"missing secret is one problem", "", []string{"PATCHBAY_SECRET_FILE=" + filepath.Join(dir, "no"),
			"PATCHBAY_BUS_URL=nats://b", "PATCHBAY_DATABASE_URL=" + want}, nil,
			`secret_file in PATCHBAY_SECRET_FILE names "DIR/no", which cannot be read (no such file or directory): name a file that holds the value and that this account may read`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Sources{Env: append(tt.env, home...), Flags: tt.flags}
			if tt.yaml != "" {
				s.File = put("board.yaml", tt.yaml)
			}
			c, _, err := Load(s)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = c.Database.URL
			}
			if err != nil && strings.Contains(got, "hunter") {
				t.Error("the problem tells the secret")
			}
			if want := strings.ReplaceAll(tt.want, "DIR", dir); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestForeignVariables(t *testing.T) {
	ours := []string{
		EnvConfig + "=", EnvServer + "=http://127.0.0.1:3000", EnvKey + "=k",
		// Variables that Kubernetes adds for services named patchbay and patchbay-db.
		"PATCHBAY_SERVICE_HOST=10.0.0.1", "PATCHBAY_SERVICE_PORT=3000", "PATCHBAY_SERVICE_PORT_HTTP=3000",
		"PATCHBAY_PORT=tcp://10.0.0.1:3000", "PATCHBAY_PORT_3000_TCP=tcp://10.0.0.1:3000",
		"PATCHBAY_PORT_3000_TCP_PROTO=tcp", "PATCHBAY_PORT_3000_TCP_PORT=3000", "PATCHBAY_PORT_3000_TCP_ADDR=10.0.0.1",
		"PATCHBAY_DB_SERVICE_HOST=10.0.0.2", "PATCHBAY_DB_PORT=tcp://10.0.0.2:5432",
		"PATCHBAY_DB_PORT_5432_TCP_ADDR=10.0.0.2",
		"PATH=/bin", "patchbay_lower=1", "PATCHBAYLISTEN=1", "=C:=C:\\", "novalue",
		"PATCHBAY_EMPTY_IS_NOT_GIVEN=",
	}
	_, origins, err := Load(Sources{Env: append(ours, home...)})
	if err != nil || len(origins) != 0 {
		t.Errorf("origins %v, error %v", origins, err)
	}
	for _, wrong := range []string{"PATCHBAY_PORT=3000", "PATCHBAY_DB_PORT=5432", "PATCHBAY_CONFIGS=x", "PATCHBAY_=x",
		"PATCHBAY_SERVICE=x"} {
		if _, _, err := Load(Sources{Env: append([]string{wrong}, home...)}); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

func TestDataHome(t *testing.T) {
	for _, tt := range []struct {
		goos string
		env  string
		want string
	}{
		{"linux", "HOME=/home/x", "/home/x/.local/share/patchbay"},
		{"linux", "HOME=/home/x XDG_DATA_HOME=/data", "/data/patchbay"},
		{"linux", "HOME=/home/x XDG_DATA_HOME=data", "/home/x/.local/share/patchbay"},
		{"linux", "", ""},
		{"freebsd", "HOME=/home/x", "/home/x/.local/share/patchbay"},
		{"darwin", "HOME=/Users/x XDG_DATA_HOME=/data", "/Users/x/Library/Application Support/Patchbay"},
		{"darwin", "", ""},
		{"windows", "LOCALAPPDATA=/u/x/Local USERPROFILE=/u/x", "/u/x/Local/Patchbay"},
		{"windows", "USERPROFILE=/u/x HOME=/h", "/u/x/AppData/Local/Patchbay"},
		{"windows", "HOME=/h", ""},
	} {
		got := dataHomeOn(tt.goos, envMap(strings.Fields(tt.env)))
		if filepath.ToSlash(got) != tt.want {
			t.Errorf("%s with %q: %q, want %q", tt.goos, tt.env, got, tt.want)
		}
	}
}
