package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhichFile(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	xdg := filepath.Join(dir, "xdg")
	files := map[string]string{
		filepath.Join(data, FileName):            "bus: {name: in_data}",
		filepath.Join(xdg, "patchbay", FileName): "bus: {name: in_home}",
		filepath.Join(dir, "named.yaml"):         "bus: {name: named}",
		filepath.Join(dir, "env.yaml"):           "bus: {name: by_env}",
	}
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	byEnv := "PATCHBAY_CONFIG=" + filepath.Join(dir, "env.yaml")
	for _, tt := range []struct {
		name string
		s    Sources
		want string // the name, or the problem with DIR for the folder
	}{
		{"home", Sources{Env: []string{"XDG_DATA_HOME=" + xdg}}, "in_home"},
		{"data by environment", Sources{Env: []string{"XDG_DATA_HOME=" + xdg, "PATCHBAY_DATA=" + data}}, "in_data"},
		{"data by flag", Sources{Env: []string{"PATCHBAY_DATA=" + xdg}, Flags: map[string]string{"data": data}},
			"in_data"},
		{"environment", Sources{Env: []string{byEnv}, Flags: map[string]string{"data": data}}, "by_env"},
		{"named", Sources{File: filepath.Join(dir, "named.yaml"), Env: []string{byEnv},
			Flags: map[string]string{"data": data}}, "named"},
		{"none", Sources{Flags: map[string]string{"data": dir}}, ""},
		{"empty variable", Sources{Env: []string{"PATCHBAY_CONFIG="}, Flags: map[string]string{"data": data}},
			"in_data"},
		{"named and missing", Sources{File: filepath.Join(dir, "no.yaml"), Flags: map[string]string{"data": data}},
			`DIR/no.yaml does not exist: write one with "patchbay config default", or name another`},
		{"environment and missing", Sources{Env: []string{"PATCHBAY_CONFIG=" + filepath.Join(dir, "no.yaml")},
			Flags: map[string]string{"data": data}},
			`DIR/no.yaml does not exist: write one with "patchbay config default", or name another`},
		{"a folder", Sources{File: data, Flags: map[string]string{"data": data}},
			`DIR/data cannot be read (is a directory): let this account read it, or name another file`},
		{"no home", Sources{},
			"data is not given and this account has no home folder: give the data folder, such as --data /var/lib/patchbay"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _, err := Load(tt.s)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = c.Bus.Name
			}
			if want := strings.ReplaceAll(tt.want, "DIR", dir); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestPaths(t *testing.T) {
	if filepath.Separator != '/' {
		t.Skip("written with the paths of Unix")
	}
	work, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, "board.yaml", "data: kept\ntls: {cert: ~/tls/c.pem, key: /etc/../etc/k.pem}\n")
	c, _, err := Load(Sources{File: path, Env: []string{"HOME=/home/xiao"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(filepath.Dir(path), "kept"); c.Data != want {
		t.Errorf("data = %q, want %q: it starts from the file's folder", c.Data, want)
	}
	if c.TLS.Cert != "/home/xiao/tls/c.pem" || c.TLS.Key != "/etc/k.pem" {
		t.Errorf("tls = %+v", c.TLS)
	}
	c, _, err = Load(Sources{Env: []string{"PATCHBAY_DATA=kept"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(work, "kept"); c.Data != want {
		t.Errorf("data = %q, want %q: it starts from the working folder", c.Data, want)
	}
}

func TestFromConfigFileIsRelativeEverywhere(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("board.yaml", []byte("data: kept\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, origins, err := Load(Sources{File: "board.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(c.Data) || filepath.Base(c.Data) != "kept" {
		t.Errorf("data = %q", c.Data)
	}
	if len(origins) != 1 || !filepath.IsAbs(origins[0].Name) {
		t.Errorf("origins %v: a message far from the working folder must name the whole path", origins)
	}
}
