package learn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/card"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Limits of media.
const (
	// MaxMedia limits a picture or sound, in bytes: it is held in memory.
	MaxMedia = 16 << 20
	// DefaultMediaTotal limits what one person has together, unless [Options] say otherwise.
	DefaultMediaTotal = 4 << 30
	// fetchTime limits a download.
	fetchTime = 30 * time.Second
	// maxRedirects limits the redirects of a download; each is checked like the first address.
	maxRedirects = 3
)

// Texts about media.
const (
	msgMediaEmpty   = i18n.Message("the file is empty")
	msgMediaLarge   = i18n.Message("a picture or sound has %d MiB at most")
	msgMediaFull    = i18n.Message("all pictures and sounds together have %d MiB at most (setting learn.media_size); remove some that are not used")
	msgMediaType    = i18n.Message("the file is no picture, sound, film or font that browsers show: PNG, JPEG, GIF, WebP, AVIF, SVG, MP3, Ogg, Opus, WAV, FLAC, M4A, WebM, MP4, WOFF, TTF")
	msgMediaName    = i18n.Message("%q cannot be the name of a picture or sound: it has a slash, begins with a dot, or is longer than 255 bytes")
	msgMediaAddress = i18n.Message("the address %s could not be fetched: it must be public, answer in time and have a picture or sound")
	msgNoMedia      = i18n.Message("There is no picture or sound with this name.")
)

// ErrNoMedia is returned for names that no picture or sound has.
var ErrNoMedia = problem.New(problem.NotFound, msgNoMedia)

// MediaType returns the media type of a picture, sound, film or font, by its content; empty if it
// is none. Names tell apart what begins alike.
func MediaType(name string, data []byte) string {
	ext := strings.ToLower(path.Ext(name))
	kind, _, _ := strings.Cut(http.DetectContentType(data), ";")
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "audio/mpeg", "font/ttf", "font/otf",
		"font/woff", "font/woff2", "font/collection":
		return kind
	case "audio/wave":
		return "audio/wav"
	case "application/ogg":
		if ext == ".ogv" {
			return "video/ogg"
		}
		return "audio/ogg"
	case "video/webm":
		if ext == ".weba" || bytes.Contains(data[:min(len(data), 4096)], []byte("A_OPUS")) &&
			!bytes.Contains(data[:min(len(data), 4096)], []byte("V_")) {
			return "audio/webm"
		}
		return kind
	case "video/mp4":
		if ext == ".m4a" {
			return "audio/mp4"
		}
		return kind
	case "text/xml", "text/plain", "text/html":
		if bytes.Contains(bytes.ToLower(data[:min(len(data), 1024)]), []byte("<svg")) && ext == ".svg" {
			return "image/svg+xml"
		}
		return ""
	}
	switch {
	case len(data) > 12 && string(data[4:8]) == "ftyp":
		switch string(data[8:12]) {
		case "avif", "avis":
			return "image/avif"
		case "M4A ", "M4B ":
			return "audio/mp4"
		}
		return "video/mp4"
	case bytes.HasPrefix(data, []byte("fLaC")):
		return "audio/flac"
	case len(data) > 2 && data[0] == 0xff && (data[1]&0xf6 == 0xf0):
		return "audio/aac"
	case len(data) > 2 && data[0] == 0xff && data[1]&0xe0 == 0xe0 && data[1]&0x06 != 0: // without ID3
		return "audio/mpeg"
	}
	return ""
}

// extensions are for names of files that came without one.
var extensions = map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp",
	"image/avif": ".avif", "image/bmp": ".bmp", "image/svg+xml": ".svg", "audio/mpeg": ".mp3", "audio/ogg": ".ogg",
	"audio/wav": ".wav", "audio/flac": ".flac", "audio/mp4": ".m4a", "audio/aac": ".aac", "audio/webm": ".weba",
	"video/mp4": ".mp4", "video/webm": ".webm", "video/ogg": ".ogv"}

// SaveMedia stores a picture or sound of a person and returns what it is stored as: without a name,
// or if another file has it, under one that its content gives. The same file is stored once. The
// place where a photo was taken is removed from JPEG files.
func (s *Service) SaveMedia(ctx context.Context, person, name string, data []byte) (store.MediaFile, error) {
	return s.saveMedia(ctx, person, name, data, false)
}

// ReplaceMedia is [Service.SaveMedia], but a file that has the name is replaced, in one step: until
// the new one is stored, the old one is there.
func (s *Service) ReplaceMedia(ctx context.Context, person, name string, data []byte) (store.MediaFile, error) {
	return s.saveMedia(ctx, person, name, data, true)
}

func (s *Service) saveMedia(ctx context.Context, person, name string, data []byte, replace bool) (store.MediaFile,
	error) {
	m := store.MediaFile{Name: cleanMediaName(name), Type: MediaType(name, data), Added: s.Now()}
	switch {
	case len(data) == 0:
		return m, invalid(msgMediaEmpty)
	case len(data) > MaxMedia:
		return m, invalid(msgMediaLarge, MaxMedia>>20)
	case m.Type == "":
		return m, invalid(msgMediaType)
	}
	if m.Type == "image/jpeg" {
		data = withoutPlace(data)
	}
	hash := store.MediaHash(data)
	if m.Name == "" {
		kind, _, _ := strings.Cut(m.Type, "/")
		m.Name = kind + "-" + hash[:12] + extensions[m.Type]
	}
	if path.Ext(m.Name) == "" {
		m.Name += extensions[m.Type]
	}
	if !card.IsMediaName(m.Name) {
		return m, invalid(msgMediaName, truncateBytes(m.Name, 60))
	}
	there, err := s.mediaNamed(ctx, person, m.Name)
	if replace && err == nil && card.IsMediaName(name) && name != m.Name { // from a package, which keeps such names
		var same *store.MediaFile
		if same, err = s.mediaNamed(ctx, person, name); same != nil {
			there, m.Name = same, name
		}
	}
	switch {
	case err != nil:
		return m, fmt.Errorf("look up a picture or sound: %w", err)
	case there != nil && there.Hash == hash:
		return *there, nil
	case there != nil && !replace:
		ext := path.Ext(m.Name)
		m.Name = truncateName(strings.TrimSuffix(m.Name, ext), 200) + "-" + hash[:12] + ext
	}
	total, err := s.Store.Learn.MediaSize(ctx, person)
	if there != nil && replace {
		total -= there.Size
	}
	if err != nil {
		return m, fmt.Errorf("look up the size of media: %w", err)
	}
	if total+int64(len(data)) > s.mediaTotal() {
		return m, invalid(msgMediaFull, s.mediaTotal()>>20)
	}
	return m, s.Store.Learn.SaveMedia(ctx, person, &m, data)
}

func (s *Service) mediaTotal() int64 {
	if s.MediaTotal > 0 {
		return s.MediaTotal
	}
	return DefaultMediaTotal
}

// mediaNamed returns the file with a name, without its content; nil if there is none.
func (s *Service) mediaNamed(ctx context.Context, person, name string) (*store.MediaFile, error) {
	m, err := s.Store.Learn.MediaNamed(ctx, person, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return &m, err
}

// StoredMediaName returns the name that a file has here which a program stored under a name: that
// one, or that which [Service.SaveMedia] makes of it. It does not matter whether there is a file.
func (s *Service) StoredMediaName(ctx context.Context, person, name string) (string, error) {
	clean := cleanMediaName(name)
	if clean == name || !card.IsMediaName(name) {
		return clean, nil
	}
	there, err := s.mediaNamed(ctx, person, name)
	if err != nil {
		return "", fmt.Errorf("look up a picture or sound: %w", err)
	}
	if there != nil {
		return name, nil
	}
	return clean, nil
}

// cleanMediaName returns the last part of a name, without characters that names have not.
func cleanMediaName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune("\"<>:|?*[]()\x7f", r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	return strings.TrimLeft(strings.TrimSpace(name), ".")
}

func truncateName(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

// Media returns a picture or sound with its content, or [ErrNoMedia].
func (s *Service) Media(ctx context.Context, person, name string) (store.MediaFile, []byte, error) {
	m, data, err := s.Store.Learn.Media(ctx, person, name)
	if errors.Is(err, store.ErrNotFound) {
		err = ErrNoMedia
	}
	return m, data, err
}

// RemoveMedia deletes a picture or sound, or returns [ErrNoMedia].
func (s *Service) RemoveMedia(ctx context.Context, person, name string) error {
	err := s.Store.Learn.RemoveMedia(ctx, person, name)
	if errors.Is(err, store.ErrNotFound) {
		err = ErrNoMedia
	}
	return err
}

// MediaList lists pictures and sounds after a name, at most limit.
func (s *Service) MediaList(ctx context.Context, person, after string, limit int) ([]store.MediaFile, error) {
	return s.Store.Learn.MediaList(ctx, person, after, limit)
}

// mediaPage is how many files are read in one step.
const mediaPage = 1000

// UnusedMedia lists the pictures and sounds to which no point, note and note type refers. Those in
// the trash count as used, and so do those of notes without cards, which packages of Anki bring,
// and files whose names begin with "_": in Anki's packages they belong to templates. It reads all
// texts of a person who has any files, which takes a moment with 100,000 points.
func (s *Service) UnusedMedia(ctx context.Context, person string) ([]store.MediaFile, error) {
	// The files come first: one that is added while the texts are read is not listed.
	var files []store.MediaFile
	for after := ""; ; after = files[len(files)-1].Name {
		list, err := s.Store.Learn.MediaList(ctx, person, after, mediaPage)
		if err != nil {
			return nil, err
		}
		if files = append(files, list...); len(list) < mediaPage {
			break
		}
	}
	if len(files) == 0 {
		return nil, nil
	}
	used, err := s.usedMedia(ctx, person)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(files, func(m store.MediaFile) bool {
		return used[m.Name] || strings.HasPrefix(m.Name, "_")
	}), nil
}

func (s *Service) usedMedia(ctx context.Context, person string) (map[string]bool, error) {
	used := map[string]bool{}
	use := func(text string) { card.MediaRefs(text, func(name string) { used[name] = true }) }
	types, err := s.Store.Learn.NoteTypes(ctx, person)
	if err != nil {
		return nil, err
	}
	for _, t := range types {
		use(strings.NewReplacer(`\"`, `"`, `\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(t.Model)))
	}
	err = s.Store.Learn.ScanNotes(ctx, person, store.NoteScan{}, func(n *store.Note) error {
		use(strings.Join(n.Fields, "\n"))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.eachOrphan(ctx, person, use); err != nil {
		return nil, err
	}
	return used, s.Store.Learn.ScanTexts(ctx, person, func(question, answer string) error {
		use(question)
		use(answer)
		return nil
	})
}

// RemoveUnusedMedia deletes what [Service.UnusedMedia] lists, and returns it.
func (s *Service) RemoveUnusedMedia(ctx context.Context, person string) ([]store.MediaFile, error) {
	list, err := s.UnusedMedia(ctx, person)
	if err != nil {
		return nil, err
	}
	for i, m := range list {
		if err := s.RemoveMedia(ctx, person, m.Name); err != nil && !errors.Is(err, ErrNoMedia) {
			return list[:i], err
		}
	}
	return list, nil
}

// FetchMedia downloads a picture or sound from an untrusted address and stores it.
func (s *Service) FetchMedia(ctx context.Context, person, name, address string) (store.MediaFile, error) {
	data, err := s.DownloadMedia(ctx, address)
	if err != nil {
		return store.MediaFile{}, err
	}
	if u, err := url.Parse(address); err == nil && name == "" {
		name = path.Base(u.Path)
		if path.Ext(name) == "" {
			name = ""
		}
	}
	return s.SaveMedia(ctx, person, name, data)
}

// DownloadMedia downloads a picture or sound from an untrusted address. Of a larger file it
// returns MaxMedia+1 bytes.
func (s *Service) DownloadMedia(ctx context.Context, address string) ([]byte, error) {
	wrong := invalid(msgMediaAddress, truncateBytes(address, 200))
	if s.Dial == nil {
		return nil, wrong
	}
	client := &http.Client{Timeout: fetchTime, Transport: &http.Transport{DialContext: s.Dial, DisableKeepAlives: true,
		MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return http.ErrUseLastResponse
			}
			return nil
		}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil || req.URL.Scheme != "https" && req.URL.Scheme != "http" || req.URL.User != nil {
		return nil, wrong
	}
	resp, err := client.Do(req)
	if err != nil {
		s.Logger.InfoContext(ctx, "a picture or sound could not be fetched", "host", req.URL.Host, "error", err)
		return nil, wrong
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxMedia+1))
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, wrong
	}
	return data, nil
}
