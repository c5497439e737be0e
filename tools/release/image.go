package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// Media types of the OCI image specification v1.1 (media-types.md).
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// imageUser is the user and group of the program in images, as in other images without root.
const imageUser = 65532

// Where the program listens, and where its data is, in images.
const (
	imagePort = "3000"
	imageData = "/data"
)

// descriptor refers to a blob by its digest (OCI descriptor.md).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *imagePlatform    `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type imagePlatform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// manifest is an image for one platform (OCI manifest.md), or with Manifests an index of images
// (image-index.md).
type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        *descriptor       `json:"config,omitempty"`
	Layers        []descriptor      `json:"layers,omitempty"`
	Manifests     []descriptor      `json:"manifests,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// imageConfig is the configuration of an image (OCI config.md).
type imageConfig struct {
	Created time.Time `json:"created"`
	imagePlatform
	Config runConfig `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []imageHistory `json:"history"`
}

type runConfig struct {
	User         string
	ExposedPorts map[string]struct{}
	Env          []string
	Entrypoint   []string
	Cmd          []string
	Volumes      map[string]struct{}
	WorkingDir   string
	Labels       map[string]string
	StopSignal   string
	Healthcheck  *healthcheck
}

// healthcheck is an extension of Docker's, which others ignore (OCI config.md, "Properties reserved
// for implementations", and moby/docker-image-spec). Times are in nanoseconds.
type healthcheck struct {
	Test              []string
	Interval, Timeout time.Duration
	StartPeriod       time.Duration
	StartInterval     time.Duration
	Retries           int
}

type imageHistory struct {
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
}

// layer is a compressed layer and the digest of what is in it.
type layer struct {
	blob   []byte
	diffID string
}

// blobs are the contents of an image by digest.
type blobs map[string][]byte

// add adds a blob and returns its descriptor.
func (b blobs) add(mediaType string, data []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(data), Size: len(data)}
	b[d.Digest] = data
	return d
}

func (b blobs) addJSON(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	return b.add(mediaType, data), err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// images writes the layout with the images of all platforms, and for each of them the tarball that
// docker load takes.
func (r *build) images(ctx context.Context, binaries []binary) error {
	binaries = slices.DeleteFunc(slices.Clone(binaries), func(b binary) bool { return !b.image() })
	if len(binaries) == 0 {
		return nil
	}
	base, err := r.baseLayer(ctx)
	if err != nil {
		return err
	}
	all := blobs{}
	index := manifest{SchemaVersion: 2, MediaType: typeIndex, Annotations: r.labels()}
	for _, b := range binaries {
		one := blobs{}
		d, err := r.image(one, base, b)
		if err != nil {
			return err
		}
		index.Manifests = append(index.Manifests, d)
		for digest, data := range one {
			all[digest] = data
		}
		if err := r.dockerTarball(b, one, d); err != nil {
			return err
		}
	}
	d, err := all.addJSON(typeIndex, index)
	if err != nil {
		return err
	}
	entries, err := layout(all, d, r.version)
	if err != nil {
		return err
	}
	folder := "patchbay_" + r.version + "_oci"
	for _, e := range entries {
		if err := r.write(folder+"/"+e.name, e.data); err != nil {
			return err
		}
	}
	r.progress("%s/", folder)
	return nil
}

// image adds the image of a platform to the blobs, and returns the descriptor of its manifest.
func (r *build) image(all blobs, base layer, b binary) (descriptor, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return descriptor{}, err
	}
	top, err := r.layer([]entry{{name: "usr/"}, {name: "usr/bin/"},
		{name: "usr/bin/patchbay", data: program, mode: 0o755}})
	if err != nil {
		return descriptor{}, err
	}
	platform := imagePlatform{Architecture: b.arch, OS: b.os}
	config := imageConfig{Created: r.time, imagePlatform: platform, Config: r.runConfig()}
	config.RootFS.Type = "layers"
	m := manifest{SchemaVersion: 2, MediaType: typeManifest, Annotations: r.labels()}
	for i, l := range []layer{base, top} {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, l.diffID)
		made := []string{"root certificates, user, folders, licences", "patchbay " + r.version}[i]
		config.History = append(config.History, imageHistory{r.time, made})
		m.Layers = append(m.Layers, all.add(typeLayer, l.blob))
	}
	c, err := all.addJSON(typeConfig, config)
	if err != nil {
		return descriptor{}, err
	}
	m.Config = &c
	d, err := all.addJSON(typeManifest, m)
	d.Platform = &platform
	return d, err
}

// runConfig is how a container runs. There is no shell and no other program in it.
func (r *build) runConfig() runConfig {
	return runConfig{
		User:         fmt.Sprintf("%d:%d", imageUser, imageUser),
		ExposedPorts: map[string]struct{}{imagePort + "/tcp": {}},
		Env: []string{"PATH=/usr/bin", "HOME=" + imageData, "PATCHBAY_DATA=" + imageData,
			"PATCHBAY_LISTEN=:" + imagePort},
		Entrypoint: []string{"/usr/bin/patchbay"},
		Cmd:        []string{"serve"},
		Volumes:    map[string]struct{}{imageData: {}},
		WorkingDir: imageData,
		Labels:     r.labels(),
		StopSignal: "SIGTERM",
		Healthcheck: &healthcheck{Test: []string{"CMD", "/usr/bin/patchbay", "doctor", "--ready"}, Interval: 30 * time.Second,
			Timeout: 10 * time.Second, StartPeriod: time.Minute, StartInterval: 2 * time.Second, Retries: 3},
	}
}

// labels are the annotations of OCI annotations.md that say what an image is.
func (r *build) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":       "Patchbay",
		prefix + "description": summary,
		prefix + "version":     r.version,
		prefix + "revision":    r.commit,
		prefix + "created":     r.time.Format(time.RFC3339),
		prefix + "licenses":    "Apache-2.0",
	}
}

// summary says in one line what the program is.
const summary = "Hub that connects glasses, voice boards and programs with the agents that answer them"

// baseLayer is everything but the program. Time zones are in the program itself.
func (r *build) baseLayer(ctx context.Context) (layer, error) {
	roots, err := rootCertificates(ctx, r.root)
	if err != nil {
		return layer{}, err
	}
	user := fmt.Sprintf("root:x:0:0::/:/sbin/nologin\npatchbay:x:%d:%d::%s:/sbin/nologin\n", imageUser, imageUser, imageData)
	group := fmt.Sprintf("root:x:0:\npatchbay:x:%d:\n", imageUser)
	entries := []entry{
		{name: "data/", mode: 0o700, uid: imageUser},
		{name: "etc/"},
		{name: "etc/group", data: []byte(group)},
		{name: "etc/passwd", data: []byte(user)},
		{name: "etc/ssl/"},
		{name: "etc/ssl/certs/"},
		{name: "etc/ssl/certs/ca-certificates.crt", data: roots},
		{name: "tmp/", mode: 0o777, sticky: true},
		{name: "usr/"},
		{name: "usr/share/"},
		{name: "usr/share/doc/"},
		{name: "usr/share/doc/patchbay/"},
	}
	for _, d := range r.documents {
		if d.name == "LICENSE" || d.name == "NOTICES.txt" {
			d.name = "usr/share/doc/patchbay/" + d.name
			entries = append(entries, d)
		}
	}
	return r.layer(entries)
}

func (r *build) layer(entries []entry) (layer, error) {
	var plain, packed bytes.Buffer
	if err := writeTar(&plain, entries, r.time); err != nil {
		return layer{}, err
	}
	diffID := digest(plain.Bytes())
	err := compressed(&packed, r.gzip, func(w io.Writer) error { _, err := plain.WriteTo(w); return err })
	return layer{packed.Bytes(), diffID}, err
}

// rootCertificates returns Mozilla's root certificates as PEM, in the version of tools/tools.mod.
// The conditions that Mozilla sets for a few of them cannot be expressed in that format, as in the
// packages of distributions.
func rootCertificates(ctx context.Context, root string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", "-modfile=tools/tools.mod",
		"golang.org/x/crypto/x509roots/fallback")
	cmd.Dir = root
	out, err := output(cmd)
	if err != nil {
		return nil, err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(out), &module); err != nil {
		return nil, err
	}
	der, err := os.ReadFile(filepath.Join(module.Dir, "bundle", "bundle.der"))
	if err != nil {
		return nil, err
	}
	certificates, err := x509.ParseCertificates(der)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, c := range certificates {
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
