package config

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; look at it and run go test -update:\n%s", path, got)
	}
}

func TestWriteDefault(t *testing.T) {
	var b bytes.Buffer
	if err := WriteDefault(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "default.yaml", b.Bytes())
	want, _, err := Load(Sources{Env: home})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(line)); n > 120 {
			t.Errorf("a line of %d letters: %s", n, line)
		}
	}

	c, origins, _, err := load(t, b.String(), nil, nil)
	if err != nil || len(origins) != 0 || !reflect.DeepEqual(c, want) {
		t.Errorf("as it is: %v\n%v", err, c)
	}
	all := regexp.MustCompile(`(?m)^( *)#([a-z_]+:)`).ReplaceAllString(b.String(), "$1$2")
	c, origins, _, err = load(t, all, nil, nil)
	if err != nil || len(origins) != len(Keys()) || !reflect.DeepEqual(c, want) {
		t.Errorf("with every key taken in: %v, %d origins\n%v", err, len(origins), c)
	}
}

func TestWriteDoc(t *testing.T) {
	var b bytes.Buffer
	if err := WriteDoc(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "doc.md", b.Bytes())
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "|") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") != 6 {
			t.Errorf("a row without five cells: %s", line)
		}
	}
	for _, k := range Keys() {
		for _, want := range []string{"| `" + k.Path + "` |", "`" + k.Env + "`", "`" + k.Flag + "`"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s is not there", want)
			}
		}
	}
}

func TestWriteEffective(t *testing.T) {
	c, _, _, err := load(t, `
public_url: https://board.example.org
data: /srv/patchbay
proxies: ["::1", 10.0.0.0/8]
lingzhu: {waiting_text: "no: #1 'x' \"y\" \\ 正在思考…"}
trace: {keep: 36h}
`, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.WriteEffective(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "effective.yaml", b.Bytes())
	again, _, _, err := load(t, b.String(), nil, nil)
	if err != nil || !reflect.DeepEqual(c, again) {
		t.Errorf("comes back as %v\n%v", err, again)
	}
}

func TestSecretsAreMasked(t *testing.T) {
	c, origins, _, err := load(t, "", nil, map[string]string{
		"secret": hexSecret, "database.url": "postgres://u:hunter2@db/p", "bus.url": "nats://token@bus:4222"})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("loaded", "config", c, "origins", origins)
	for name, text := range map[string]string{
		"String": c.String(), "%v": fmt.Sprintf("%v", c), "%+v": fmt.Sprintf("%+v", c), "%#v": fmt.Sprintf("%#v", c),
		"value": fmt.Sprintf("%v", *c), "value as Go": fmt.Sprintf("%#v", *c), "log": log.String(),
	} {
		if strings.Contains(text, hexSecret) || strings.Contains(text, "hunter2") || strings.Contains(text, "token@") {
			t.Errorf("%s tells a secret: %s", name, text)
		}
		if !strings.Contains(text, Masked) {
			t.Errorf("%s does not tell that there is one: %s", name, text)
		}
	}
	// The mask is not accepted as a value.
	for _, k := range Keys() {
		if !k.Secret {
			continue
		}
		_, _, _, err := load(t, "", nil, map[string]string{k.Path: Masked})
		var problems Problems
		if !errors.As(err, &problems) || !problems.mentions(k.Path) {
			t.Errorf("%s can be %s: %v", k.Path, Masked, err)
		}
	}
}

// broken fails every write.
type broken struct{}

var errBroken = errors.New("broken")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteErrors(t *testing.T) {
	for name, write := range map[string]func(io.Writer) error{
		"WriteDefault": WriteDefault, "WriteDoc": WriteDoc, "WriteEffective": fill(defaults()).WriteEffective,
	} {
		if err := write(broken{}); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
