// A client with Go's standard library: it reads the pages of its arguments, one after the other, and trusts the authority that lies
// beside it. It knows of no proxy.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	trusted := x509.NewCertPool()
	if authority, err := os.ReadFile(filepath.Join(filepath.Dir(os.Args[0]), "authority.pem")); err == nil {
		trusted.AppendCertsFromPEM(authority)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: trusted}
	client := &http.Client{Transport: transport}
	for _, page := range os.Args[1:] {
		fmt.Println(read(client, page))
	}
	answer, err := client.Post(os.Args[1], "text/plain", strings.NewReader("posted"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(answer.StatusCode)
}

func read(client *http.Client, page string) string {
	answer, err := client.Get(page)
	var unknown *net.DNSError
	if errors.As(err, &unknown) && unknown.IsNotFound {
		return "no such host: " + unknown.Name
	}
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
