package qr

import (
	"bytes"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"testing"
)

// scene describes a photo of a screen that shows a QR code.
type scene struct {
	name   string
	text   string  // default: sceneText
	w, h   int     // of the photo; default 1280×960
	side   float64 // of the code in the photo, in pixels; default 400. Negative: no code
	turn   float64 // degrees in the plane of the photo
	pitch  float64 // degrees the screen leans back
	yaw    float64 // degrees the screen turns away
	offX   float64 // offset of the code's centre from the photo's, in pixels
	offY   float64
	bright float64 // brightness of white; default 1
	black  float64 // brightness of black relative to white (stray light); default 0.05
	noise  float64 // standard deviation, in 1/255 of full scale
	blur   float64 // standard deviation in pixels
	moire  float64 // amplitude relative to white
	fall   float64 // how much darker one side is than the other, 0 to 1
	glare  float64 // strength of a spot of light beside the centre, relative to white
	dark   bool    // page in dark mode: inverted code
	seed   uint64
	encode func(testing.TB, image.Image) []byte // default: JPEG, quality 85
}

const sceneText = "https://patchbay.example/b/3qk9VYxT0cM7hJwLr2uZ8A"

func (s scene) defaults() scene {
	if s.text == "" {
		s.text = sceneText
	}
	if s.w == 0 {
		s.w, s.h = 1280, 960
	}
	if s.side == 0 {
		s.side = 400
	}
	if s.bright == 0 {
		s.bright = 1
	}
	if s.black == 0 {
		s.black = 0.05
	}
	if s.encode == nil {
		s.encode = asJPEG(85)
	}
	return s
}

// photo renders and encodes the scene.
func (s scene) photo(t testing.TB) []byte {
	t.Helper()
	s = s.defaults()
	return s.encode(t, s.render(t))
}

// page is the content of the screen, with perModule pixels per module of the code, 0 black to 1
// white; the code begins at (margin, margin).
type page struct {
	n, side int // size of the code and of the whole page, in modules
	light   []float32
}

const (
	perModule = 6
	margin    = 26 // margin around the code, in modules
	desk      = 0.25
)

func newPage(t testing.TB, s scene, rnd *rand.Rand) *page {
	t.Helper()
	code, err := Encode(s.text)
	if err != nil {
		t.Fatal(err)
	}
	p := &page{n: code.size, side: code.size + 2*margin}
	p.light = make([]float32, p.side*p.side*perModule*perModule)
	n := float64(p.n)
	p.fill(-margin, -margin, float64(p.side), float64(p.side), 1)
	// Lines of text above and below, made of bars and small squares.
	for _, y := range []float64{-14, -11, -8, n + 7, n + 10, n + 13, n + 16} {
		for x := -n / 2; x < n*1.5; {
			w := 0.3 + rnd.Float64()*1.2
			p.fill(x, y, w, 1+rnd.Float64(), 0.1+0.3*rnd.Float64())
			x += w + 0.3 + rnd.Float64()*0.8
		}
	}
	p.fill(n+8, 2, 12, 4, 0.45) // a button
	p.fill(-16, 3, 7, 7, 0.1)   // an icon that looks like a finder pattern
	p.fill(-15, 4, 5, 5, 1)
	p.fill(-14, 5, 3, 3, 0.1)
	for i := range p.n * p.n {
		if s.side > 0 && code.Dark(i%p.n, i/p.n) {
			p.fill(float64(i%p.n), float64(i/p.n), 1, 1, 0)
		}
	}
	if s.dark {
		for i, v := range p.light {
			p.light[i] = 1 - v
		}
	}
	return p
}

// fill paints a rectangle, in modules.
func (p *page) fill(x, y, w, h, v float64) {
	at := func(m float64) int { return min(max(int(math.Round((m+margin)*perModule)), 0), p.side*perModule) }
	for py := at(y); py < at(y+h); py++ {
		for px := at(x); px < at(x+w); px++ {
			p.light[py*p.side*perModule+px] = float32(v)
		}
	}
}

// at is the brightness at a position, in modules from the code's corner.
func (p *page) at(x, y float64) float64 {
	px, py := int((x+margin)*perModule), int((y+margin)*perModule)
	if x < -margin || y < -margin || px >= p.side*perModule || py >= p.side*perModule {
		return desk
	}
	return float64(p.light[py*p.side*perModule+px])
}

// render renders the photo of a pinhole camera.
func (s scene) render(t testing.TB) image.Image {
	rnd := rand.New(rand.NewPCG(s.seed, 7))
	p := newPage(t, s, rnd)
	module := math.Abs(s.side) / float64(p.n) // pixels per module
	light := make([]float64, s.w*s.h)
	see := s.camera()
	sub := 3
	if module > 12 {
		sub = 2
	}
	for y := range s.h {
		for x := range s.w {
			sum := 0.0
			for i := range sub * sub {
				px := float64(x) + (float64(i%sub)+0.5)/float64(sub) - float64(s.w)/2 - s.offX
				py := float64(y) + (float64(i/sub)+0.5)/float64(sub) - float64(s.h)/2 - s.offY
				u, v, ok := see(px, py)
				if ok {
					sum += p.at(u/module+float64(p.n)/2, v/module+float64(p.n)/2)
				} else {
					sum += desk
				}
			}
			light[y*s.w+x] = sum / float64(sub*sub)
		}
	}
	blurLight(light, s.w, s.h, s.blur)
	out := image.NewRGBA(image.Rect(0, 0, s.w, s.h))
	for y := range s.h {
		for x := range s.w {
			v := s.expose(light[y*s.w+x], float64(x), float64(y))
			v = v*255 + rnd.NormFloat64()*s.noise
			out.SetRGBA(x, y, color.RGBA{clamp(v), clamp(v * 0.98), clamp(v * 0.94), 255})
		}
	}
	return out
}

// camera returns the mapping of photo pixels to screen positions, in pixels of an untilted photo.
// The screen is tilted about the centre of the code.
func (s scene) camera() func(x, y float64) (u, v float64, ok bool) {
	rad := math.Pi / 180
	st, ct := math.Sincos(s.turn * rad)
	sp, cp := math.Sincos(s.pitch * rad)
	sy, cy := math.Sincos(s.yaw * rad)
	f := 1.1 * float64(max(s.w, s.h)) // focal length = distance of the screen
	// Axes of the screen in camera coordinates.
	ax, ay, az := ct*cy, st, -ct*sy
	bx, by, bz := -st*cy, ct, st*sy
	ay, az = ay*cp-az*sp, ay*sp+az*cp
	by, bz = by*cp-bz*sp, by*sp+bz*cp
	return func(x, y float64) (float64, float64, bool) {
		// Solve (u a + v b + (0,0,f)) ∥ (x, y, f).
		m11, m12 := ax-x/f*az, bx-x/f*bz
		m21, m22 := ay-y/f*az, by-y/f*bz
		det := m11*m22 - m12*m21
		if math.Abs(det) < 1e-6 {
			return 0, 0, false
		}
		return (x*m22 - y*m12) / det, (y*m11 - x*m21) / det, true
	}
}

// expose is the brightness of a point of the photo.
func (s scene) expose(v, x, y float64) float64 {
	w, h := float64(s.w), float64(s.h)
	v = s.black + (1-s.black)*v
	if s.moire > 0 {
		v *= 1 + s.moire*(math.Sin(x*0.61+y*0.13)+math.Sin(y*0.23-x*0.05)*0.7)/1.7
	}
	v *= 1 - s.fall*(x/w*0.8+y/h*0.2)
	if s.glare > 0 {
		dx, dy := (x-w*0.62)/(w*0.1), (y-h*0.42)/(h*0.1)
		v += s.glare * math.Exp(-(dx*dx + dy*dy))
	}
	return v * s.bright
}

func clamp(v float64) uint8 { return uint8(min(max(v+0.5, 0), 255)) }

// blurLight applies a Gaussian blur.
func blurLight(p []float64, w, h int, sigma float64) {
	if sigma <= 0 {
		return
	}
	r := int(math.Ceil(3 * sigma))
	k := make([]float64, 2*r+1)
	sum := 0.0
	for i := range k {
		k[i] = math.Exp(-float64((i-r)*(i-r)) / (2 * sigma * sigma))
		sum += k[i]
	}
	pass := func(n, count, step, lineStep int) {
		line := make([]float64, n)
		for l := range count {
			for i := range n {
				line[i] = p[l*lineStep+i*step]
			}
			for i := range n {
				v := 0.0
				for j, kv := range k {
					v += kv * line[min(max(i+j-r, 0), n-1)]
				}
				p[l*lineStep+i*step] = v / sum
			}
		}
	}
	pass(w, h, 1, w)
	pass(h, w, w, 1)
}

func asJPEG(quality int) func(testing.TB, image.Image) []byte {
	return func(t testing.TB, m image.Image) []byte {
		t.Helper()
		var b bytes.Buffer
		if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: quality}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
}

func asPNG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func asGIF(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := gif.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// randomScene is a random photo; some are unreadable.
func randomScene(i uint64) scene {
	r := rand.New(rand.NewPCG(i, 99))
	u := func(a, b float64) float64 { return a + (b-a)*r.Float64() }
	logu := func(a, b float64) float64 { return math.Exp(u(math.Log(a), math.Log(b))) }
	s := scene{seed: i}
	sizes := []image.Point{{1280, 960}, {1280, 960}, {1280, 960}, {960, 1280}, {640, 480}, {2016, 1512}}
	size := sizes[r.IntN(len(sizes))]
	s.w, s.h = size.X, size.Y
	mods := 33.0
	if r.IntN(3) == 0 {
		s.text = "3qk9VYxT0cM7hJwLr2uZ8A"
		mods = 25
	}
	s.side = logu(3.2*mods, 0.75*float64(min(s.w, s.h)))
	s.turn = u(0, 360)
	if r.IntN(3) == 0 {
		s.turn = u(-8, 8)
	}
	if r.IntN(2) == 0 {
		s.pitch, s.yaw = u(-40, 40), u(-40, 40)
	}
	m := s.side / mods
	lim := float64(min(s.w, s.h))/2 - s.side*0.7
	if lim > 0 {
		s.offX, s.offY = u(-lim, lim), u(-lim, lim)
	}
	s.bright = logu(.12, 1)
	s.black = u(.01, .35)
	s.noise = u(0, 12) * math.Sqrt(s.bright)
	if r.IntN(2) == 0 {
		s.blur = u(0, min(6, .55*m))
	}
	if r.IntN(2) == 0 {
		s.moire = u(0, .35)
	}
	if r.IntN(2) == 0 {
		s.fall = u(0, .7)
	}
	if r.IntN(4) == 0 {
		s.glare = u(0, .8)
	}
	s.dark = r.IntN(4) == 0
	s.encode = asJPEG(30 + r.IntN(60))
	return s
}
