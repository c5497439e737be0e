package mcpb

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"testing"
)

func TestBundles(t *testing.T) {
	b := Bundle{Version: "v1.2.3", Server: "https://board.example.org", Programs: []Program{
		{Mac, []byte("\xcf\xfa\xed\xfe program")}, {Windows, []byte("MZ program")}}}
	var first, second bytes.Buffer
	if err := b.Write(&first); err != nil {
		t.Fatal(err)
	}
	if err := b.Write(&second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("equal bundles differ, %v", err)
	}
	z, err := zip.NewReader(bytes.NewReader(first.Bytes()), int64(first.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		name string
		mode string
	}{{"manifest.json", "-rw-r--r--"}, {"server/darwin/patchbay", "-rwxr-xr-x"}, {"server/win32/patchbay.exe",
		"-rwxr-xr-x"}} {
		if f := z.File[i]; f.Name != want.name || f.Mode().String() != want.mode {
			t.Errorf("file %d is %s %s, want %v", i, f.Mode(), f.Name, want)
		}
	}
	f, err := z.Open("manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(f)
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	key := m.UserConfig["key"]
	if m.Version != "1.2.3" || m.Server.Config.Overrides["win32"].Command != "${__dirname}/server/win32/patchbay.exe" ||
		!key.Sensitive || !key.Required || m.UserConfig["server"].Default != b.Server {
		t.Errorf("the manifest is %s", text)
	}
}

func TestBundlesThatCannotBe(t *testing.T) {
	for _, programs := range [][]Program{
		nil,
		{{Mac, []byte("MZ program")}},
		{{Linux, []byte("#!/bin/sh")}},
		{{Linux, nil}},
		{{"beos", []byte("\x7fELF")}},
		{{Linux, []byte("\x7fELF..")}, {Linux, []byte("\x7fELF..")}},
	} {
		if (&Bundle{Programs: programs}).Write(io.Discard) == nil {
			t.Errorf("a bundle of %q was written", programs)
		}
	}
	for text, want := range map[string]string{"devel": "0.0.0", "1.2": "0.0.0", "v2.0.0-rc.1": "2.0.0-rc.1",
		"01.2.3": "0.0.0"} {
		if got := versionOf(text); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}
