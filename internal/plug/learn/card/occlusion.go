package card

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// occlusionMark begins the words of a cloze that is a shape on a picture
// (rslib/src/image_occlusion/imageocclusion.rs).
const occlusionMark = "image-occlusion:"

// maxShapes limits the shapes of a card, and maxCorners the corners of one.
const maxShapes, maxCorners = 500, 500

// shape is a shape on a picture. Lengths are shares of the picture's width and height.
type shape struct {
	kind       string // rect, ellipse, polygon or text
	look       string // cloze: asked; cloze-inactive: another's; cloze-highlight: was asked
	properties map[string]string
}

// addShape collects the shape of a cloze. Shapes of other clozes stay covered only if they say so
// ("oi=1"); those with the number 0 always are.
func (s *Side) addShape(spec string, asked, always bool) {
	kind, rest, _ := strings.Cut(spec, ":")
	sh := shape{kind: strings.TrimSpace(kind), properties: map[string]string{}}
	switch sh.kind {
	case "rect", "ellipse", "polygon", "text":
	default:
		return
	}
	rest = strings.ReplaceAll(strings.ReplaceAll(rest, `\\`, "\x01"), `\:`, "\x02")
	for part := range strings.SplitSeq(rest, ":") {
		name, value, ok := strings.Cut(part, "=")
		if ok && len(sh.properties) < 20 {
			sh.properties[name] = strings.NewReplacer("\x01", `\`, "\x02", ":").Replace(strings.TrimSpace(value))
		}
	}
	switch {
	case asked && !s.Answer || always:
		sh.look = "cloze"
	case asked:
		sh.look = "cloze-highlight"
	case sh.properties["oi"] == "1" || sh.kind == "text":
		sh.look = "cloze-inactive"
	default:
		return
	}
	if len(s.shapes) < maxShapes {
		s.shapes = append(s.shapes, sh)
	}
}

// number returns a property from -1 to 2, and whether it is one. Old notes have pixels there, which
// mean nothing without the size that the picture had in the editor.
func (s *shape) number(name string) (float64, bool) {
	f, err := strconv.ParseFloat(s.properties[name], 64)
	return f, err == nil && !math.IsNaN(f) && f >= -1 && f <= 2
}

// html draws the shape over a picture, without a script. A shape that cannot be drawn where it
// should be covers the whole picture, so that nothing is given away.
func (s *shape) html() string {
	left, ok1 := s.number("left")
	top, ok2 := s.number("top")
	style := ""
	switch s.kind {
	case "rect", "ellipse":
		a, b, twice := "width", "height", 1.0
		if s.kind == "ellipse" {
			a, b, twice = "rx", "ry", 2
		}
		width, ok3 := s.number(a)
		height, ok4 := s.number(b)
		if !ok1 || !ok2 || !ok3 || !ok4 {
			return s.cover()
		}
		style = fmt.Sprintf("left:%s;top:%s;width:%s;height:%s;", percent(left), percent(top), percent(width*twice),
			percent(height*twice))
		if s.kind == "ellipse" {
			style += "border-radius:50%;"
		}
		if angle, err := strconv.ParseFloat(s.properties["angle"], 64); err == nil && math.Abs(angle) <= 360 {
			style += fmt.Sprintf("transform:rotate(%.2fdeg);transform-origin:0 0;", angle)
		}
	case "polygon":
		corners := s.corners()
		if corners == "" {
			return s.cover()
		}
		style = "left:0;top:0;width:100%;height:100%;clip-path:polygon(" + corners + ");"
	case "text":
		if !ok1 || !ok2 {
			return ""
		}
		return fmt.Sprintf(`<span class="shape shape-text" style="left:%s;top:%s">%s</span>`, percent(left),
			percent(top), html.EscapeString(s.properties["text"]))
	}
	return `<span class="shape shape-` + s.look + `" style="` + style + `"></span>`
}

// cover covers the whole picture, unless the shape only marks something.
func (s *shape) cover() string {
	if s.look == "cloze-highlight" {
		return ""
	}
	return `<span class="shape shape-` + s.look + `" style="left:0;top:0;width:100%;height:100%"></span>`
}

// corners returns the corners of a polygon for CSS; empty if they are none.
func (s *shape) corners() string {
	var list []string
	for pair := range strings.FieldsSeq(s.properties["points"]) {
		x, y, _ := strings.Cut(pair, ",")
		a, err1 := strconv.ParseFloat(x, 64)
		b, err2 := strconv.ParseFloat(y, 64)
		if err1 != nil || err2 != nil || !(math.Abs(a) <= 2) || !(math.Abs(b) <= 2) || len(list) == maxCorners {
			return ""
		}
		list = append(list, percent(a)+" "+percent(b))
	}
	if len(list) < 3 {
		return ""
	}
	return strings.Join(list, ",")
}

func percent(share float64) string { return strconv.FormatFloat(share*100, 'f', 3, 64) + "%" }
