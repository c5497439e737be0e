package sim

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxImages is the number of photos that a server keeps. The platform's addresses expire as well.
const maxImages = 16

// imageServer serves photos at addresses that look like the platform's.
type imageServer struct {
	base string
	srv  *http.Server
	done chan struct{}

	mu     sync.Mutex
	images map[string][]byte // by path
	order  []string
}

// serveImage makes a photo available and returns its address.
func (g *Glasses) serveImage(data []byte) (address string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.images == nil {
		if g.images, err = newImageServer(); err != nil {
			return "", fmt.Errorf("serving photos: %w", err)
		}
	}
	return g.images.add(data), nil
}

func newImageServer() (*imageServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &imageServer{base: "http://" + l.Addr().String(), done: make(chan struct{}), images: make(map[string][]byte)}
	s.srv = &http.Server{Handler: s, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	go func() {
		defer close(s.done)
		s.srv.Serve(l) //nolint:errcheck // it ends when it is closed
	}()
	return s, nil
}

func (s *imageServer) close() {
	s.srv.Close() //nolint:errcheck // nothing is to be saved
	<-s.done
}

func (s *imageServer) add(data []byte) (address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, extension := format(data)
	path := "/basecloud/prod/coze/image/" + randomHex() + extension
	s.images[path] = data
	s.order = append(s.order, path)
	if len(s.order) > maxImages {
		delete(s.images, s.order[0])
		s.order = s.order[1:]
	}
	return s.base + path
}

func (s *imageServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	data, ok := s.images[r.URL.Path]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	mime, _ := format(data)
	w.Header().Set("Content-Type", mime)
	w.Write(data) //nolint:errcheck // the reader's loss
}

func dataURI(data []byte) string {
	mime, _ := format(data)
	return "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(data)
}

// format returns the type that the platform would declare for a photo. The glasses send WebP, so
// unknown data is declared as WebP.
func format(data []byte) (mime, extension string) {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png", ".png"
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return "image/jpeg", ".jpg"
	case bytes.HasPrefix(data, []byte("GIF8")):
		return "image/gif", ".gif"
	}
	return "image/webp", ".webp"
}
