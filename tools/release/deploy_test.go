package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"patchbay/internal/config"
)

const deployFolder = "../../deploy"

// deployFiles returns the files of deploy/ by path.
func deployFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(deployFolder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(deployFolder, path)
		files[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	return files
}

// documents parses a file with YAML documents.
func documents(t *testing.T, text string) (list []map[string]any) {
	t.Helper()
	for dec := yaml.NewDecoder(strings.NewReader(text)); ; {
		var d map[string]any
		if err := dec.Decode(&d); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("%v in\n%.300s", err, text)
		}
		list = append(list, d)
	}
}

var variable = regexp.MustCompile(`\bPATCHBAY_[A-Z0-9_]+`)

// Every variable that the files name, in comments too, is a setting.
func TestDeploySettings(t *testing.T) {
	names := map[string]bool{"PATCHBAY_IMAGE": true} // an argument of a build
	for _, k := range config.Keys() {
		names[k.Env] = true
		names[k.Env+"_FILE"] = k.Secret
	}
	for path, text := range deployFiles(t) {
		for _, name := range variable.FindAllString(text, -1) {
			if !names[name] {
				t.Errorf("%s: %s is no setting", path, name)
			}
		}
	}
}

// at follows keys and indexes.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// someSecret stands for a secret that the person who deploys has to give.
var someSecret = strings.Repeat("5e", 32)

var interpolation = regexp.MustCompile(`\$\{[^}]+\}`)

// loads checks the values of settings.
func loads(t *testing.T, what string, env map[string]string) {
	t.Helper()
	list := []string{"HOME=" + t.TempDir()}
	for name, value := range env {
		list = append(list, name+"="+interpolation.ReplaceAllString(value, someSecret))
	}
	if _, _, err := config.Load(config.Sources{Env: list}); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func TestCompose(t *testing.T) {
	files := deployFiles(t)
	for file, instances := range map[string][]string{"compose.yaml": {"patchbay"}, "several.yaml": {"one", "two"}} {
		d := documents(t, files["compose/"+file])[0]
		volumes, _ := d["volumes"].(map[string]any)
		for _, name := range instances {
			service := at(d, "services", name)
			if at(service, "image") != deployImage {
				t.Errorf("%s: the image of %s is %v", file, name, at(service, "image"))
			}
			env := map[string]string{}
			settings, _ := at(service, "environment").(map[string]any)
			for k, v := range settings {
				env[k], _ = v.(string)
			}
			loads(t, file+" "+name, env)
			volume, _ := at(service, "volumes", 0).(string)
			source, target, _ := strings.Cut(volume, ":")
			if _, ok := volumes[source]; !ok || target != imageData {
				t.Errorf("%s: the volume of %s is %q", file, name, volume)
			}
			if file == "several.yaml" && !strings.Contains(files["compose/Caddyfile"], " "+name+":"+imagePort) {
				t.Errorf("the load balancer does not know %s", name)
			}
		}
		if file == "compose.yaml" && at(d, "services", "patchbay", "ports", 0) != "3000:"+imagePort {
			t.Errorf("the ports are %v", at(d, "services", "patchbay", "ports"))
		}
	}
}

func TestKubernetes(t *testing.T) {
	files := deployFiles(t)
	for file, replicas := range map[string]int{"single.yaml": 1, "several.yaml": 2} {
		secret, container, pod := any(nil), any(nil), any(nil)
		for _, d := range documents(t, files["kubernetes/"+file]) {
			switch d["kind"] {
			case "Secret":
				secret = d["stringData"]
			case "StatefulSet":
				pod = at(d, "spec", "template", "spec")
				container = at(pod, "containers", 0)
				if at(d, "spec", "replicas") != replicas {
					t.Errorf("%s has %v replicas", file, at(d, "spec", "replicas"))
				}
				if at(d, "spec", "selector", "matchLabels", "app.kubernetes.io/name") !=
					at(d, "spec", "template", "metadata", "labels", "app.kubernetes.io/name") {
					t.Errorf("%s selects other pods than its own", file)
				}
			}
		}
		env := map[string]string{}
		list, _ := at(container, "env").([]any)
		for _, v := range list {
			name, _ := at(v, "name").(string)
			env[name], _ = at(v, "value").(string)
			if key, ok := at(v, "valueFrom", "secretKeyRef", "key").(string); ok {
				value, known := at(secret, key).(string)
				if !known {
					t.Errorf("%s: the secret has no %s", file, key)
				}
				env[name] = value
			}
		}
		if _, ok := env["PATCHBAY_SECRET"]; ok {
			env["PATCHBAY_SECRET"] = someSecret // left empty, so that it is not forgotten
		}
		loads(t, file, env)
		if !strings.HasPrefix(env["PATCHBAY_DATA"], imageData+"/") || at(container, "volumeMounts", 0, "mountPath") != imageData {
			t.Errorf("%s has its data in %s, on %v", file, env["PATCHBAY_DATA"], at(container, "volumeMounts"))
		}
		if at(container, "image") != deployImage || at(container, "ports", 0, "containerPort") != 3000 ||
			at(pod, "securityContext", "runAsUser") != imageUser || at(pod, "securityContext", "fsGroup") != imageUser {
			t.Errorf("%s has another image, port or user: %+v", file, container)
		}
	}
}

func TestHomeAssistant(t *testing.T) {
	files := deployFiles(t)
	const folder = "homeassistant/patchbay/"
	d := documents(t, files[folder+"config.yaml"])[0]
	if at(documents(t, files[folder+"build.yaml"])[0], "args", "PATCHBAY_IMAGE") != deployImage ||
		!strings.Contains(files[folder+"config.yaml"], deployVersion) {
		t.Error("a release cannot fill in its image and version")
	}
	options, _ := d["options"].(map[string]any)
	schema, _ := d["schema"].(map[string]any)
	for name := range options {
		if _, ok := schema[name]; !ok {
			t.Errorf("the option %s is not in the schema", name)
		}
	}
	for option, setting := range map[string]string{"lang": "PATCHBAY_LANG", "log_level": "PATCHBAY_LOG_LEVEL"} {
		choices, _ := schema[option].(string)
		choices = strings.TrimSuffix(strings.TrimPrefix(choices, "list("), ")")
		for value := range strings.SplitSeq(choices, "|") {
			loads(t, option, map[string]string{setting: value})
		}
	}
	for _, language := range []string{"en", "zh-Hans"} {
		words, _ := at(documents(t, files[folder+"translations/"+language+".yaml"])[0], "configuration").(map[string]any)
		if len(words) != len(schema) {
			t.Errorf("%s has texts for %d of %d options", language, len(words), len(schema))
		}
		for name := range words {
			if _, ok := schema[name]; !ok || !strings.Contains(files[folder+"DOCS.md"], "| `"+name+"` |") {
				t.Errorf("%s: no option, or not in DOCS.md", name)
			}
		}
	}
}

// The add-on's script makes settings of options.
func TestAddonScript(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("jq is not installed")
	}
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // a script
			t.Fatal(err)
		}
		return path
	}
	write("patchbay", "#!/bin/sh\nenv | grep ^PATCHBAY_ | sort\necho \"$@\"\n")
	run := func(options string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(deployFolder, "homeassistant/patchbay/run.sh"))
		cmd.Env = []string{"PATH=" + folder + ":" + os.Getenv("PATH"), "OPTIONS=" + write("options.json", options)}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	got, err := run(`{"lang":"en","log_level":"info","settings":[{"name":"PATCHBAY_XIAOZHI_MQTT","value":":1883 $(id)"}]}`)
	const want = "PATCHBAY_DATA=/data/patchbay\nPATCHBAY_LANG=en\nPATCHBAY_LISTEN=:3000\nPATCHBAY_LOG_LEVEL=info\n" +
		"PATCHBAY_PUBLIC_URL=\nPATCHBAY_XIAOZHI_MQTT=:1883 $(id)\nserve\n"
	if err != nil || got != want {
		t.Errorf("%v, ran with\n%s", err, got)
	}
	for _, name := range []string{"PATH", "PATCHBAY_X=1 PATH", "PATCHBAY_$(id)", "XPATCHBAY_A", ""} {
		if got, err := run(`{"settings":[{"name":"` + name + `","value":"x"}]}`); err == nil {
			t.Errorf("%q is taken for a setting: %s", name, got)
		}
	}
}

// The recipe makes the same image as the release.
func TestContainerfile(t *testing.T) {
	text := deployFiles(t)["Containerfile"]
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	want := (&build{}).runConfig()
	lines := []string{"USER " + want.User, "WORKDIR " + want.WorkingDir, "VOLUME " + imageData, "EXPOSE " + imagePort + "/tcp",
		"ENV " + strings.Join(want.Env, " "), "STOPSIGNAL " + want.StopSignal, `ENTRYPOINT ["` + want.Entrypoint[0] + `"]`,
		`CMD ["` + want.Cmd[0] + `"]`,
		`  CMD ["` + strings.Join(want.Healthcheck.Test[1:], `", "`) + `"]`}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	lines = append(lines, "FROM docker.io/library/golang:"+string(version[1])+" AS build")
	for _, l := range lines {
		if !slices.Contains(strings.Split(text, "\n"), l) {
			t.Errorf("the Containerfile has no line %q", l)
		}
	}
	for _, flag := range compileFlags[2:] {
		if !strings.Contains(strings.ReplaceAll(text, `"`, ""), flag) {
			t.Errorf("the Containerfile builds without %s", flag)
		}
	}
}

// The archive of deploy/ names the release.
func TestDeployment(t *testing.T) {
	r := &build{options: options{root: "../..", repository: "registry.example.org/pb", url: "https://example.com/1"},
		source: source{version: "1.2.3"}}
	entries, err := r.deployEntries("d/")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		all[e.name] = string(e.data)
		if bytes.Contains(e.data, []byte(deployImage)) || bytes.Contains(e.data, []byte(placeholder)) {
			t.Errorf("%s has a placeholder", e.name)
		}
	}
	if !strings.Contains(all["d/compose/compose.yaml"], "image: registry.example.org/pb:1.2.3\n") ||
		!strings.Contains(all["d/homeassistant/patchbay/config.yaml"], "version: \"1.2.3\"\n") {
		t.Error("image or version are not filled in")
	}
}
