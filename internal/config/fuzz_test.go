package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// checkProblems checks that an error of Load is readable.
func checkProblems(t *testing.T, c *Config, err error) {
	t.Helper()
	var problems Problems
	if !errors.As(err, &problems) || len(problems) == 0 || c != nil {
		t.Fatalf("error of type %T with configuration %v: %v", err, c, err)
	}
	for _, p := range problems {
		text := p.Error()
		if !printable(text) || len(text) > 2000 || p.Key == "" || p.Fault == "" || p.Advice == "" {
			t.Fatalf("a problem that cannot be read: %q", text)
		}
	}
}

func FuzzLoadFile(f *testing.F) {
	var b bytes.Buffer
	if err := WriteDefault(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	for _, seed := range []string{
		"", "---\n", "lang: en\n", "lisen: :3\n", "log:\n  level: warn\nlog: {}\n",
		"proxies: [10.0.0.0/8, '::1']\nlimits: {body: 2048, turns: 7}\n",
		"secret: " + hexSecret + "\n", "secret_file: /dev/null\n", "a: &a [*a]\n", "<<: {lang: en}\n", "? [a]\n: b\n",
		"lang: !!binary ZW4=\n",
		"lang: ~\n", "lang: \"\\u2028\"\n", "data: ~/x\ntls: {cert: c, key: ../k}\n", "lang: en\n---\nlang: zh\n",
		"lingzhu: {waiting_text: >-\n  a\n  b\n}\n",
		"lingzhu: {waiting_text: \"0x10\", waiting_after: 3s}\n",
		"fetch: {allow_hosts: '*.example.org, localhost', allow_nets: [fd00::/8]}\n",
		"turn: {idle: 1d12h}\ntrace: {keep: 1d12h}\n", "\xff\xfel\x00a\x00n\x00g\x00:\x00 \x00e\x00n\x00",
		"bus.url: x\n", "log: debug\n", "- a\n", "{", "\t",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "fuzz.yaml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := Load(Sources{File: path, Env: home})
		if err != nil {
			checkProblems(t, c, err)
			return
		}
		if err := c.Validate(); err != nil {
			t.Fatalf("loaded, but not valid: %v", err)
		}
		if c.Secret != "" || c.Database.URL != "" || c.Bus.URL != "" {
			return // masked, so they do not load back
		}
		var out bytes.Buffer
		if err := c.WriteEffective(&out); err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(dir, "effective.yaml")
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		again, origins, err := Load(Sources{File: path, Env: home})
		if err != nil {
			t.Fatalf("its own output is refused: %v\n%s", err, out.Bytes())
		}
		if !reflect.DeepEqual(c, again) || len(origins) != len(known.keys) {
			t.Fatalf("comes back as\n%v\nnot\n%v", again, c)
		}
	})
}

// FuzzLoadValue sets one key to any text by environment and by flag.
func FuzzLoadValue(f *testing.F) {
	for i, k := range known.keys {
		f.Add(i, k.Default)
	}
	for i, text := range []string{"1d", "106751d23h47m16.854775807s", "8EiB", "-0", "1e3", "0x1", " 7 ", "1\n", "\xff",
		"ＴＲＵＥ", "K", ",", "a,,b"} {
		f.Add(i*3, text)
	}
	f.Fuzz(func(t *testing.T, i int, text string) {
		k := known.keys[uint(i)%uint(len(known.keys))]
		c, _, err := Load(Sources{Env: home, Flags: map[string]string{k.Path: text}})
		if err != nil {
			checkProblems(t, c, err)
		} else if k.Type != Path && !strings.HasSuffix(text, "/") {
			v := k.of(c)
			if back, ok := k.parse(k.text(v)); !ok || !reflect.DeepEqual(back, v) {
				t.Fatalf("%s: %q became %v and then %v", k.Path, text, v, back)
			}
		}
		if text == "" {
			return
		}
		byEnv, _, envErr := Load(Sources{Env: append([]string{k.Env + "=" + text}, home...)})
		if (err == nil) != (envErr == nil) || err == nil && !reflect.DeepEqual(c, byEnv) {
			t.Fatalf("%s = %q: by flag %v, %v; by environment %v, %v", k.Path, text, c, err, byEnv, envErr)
		}
	})
}
