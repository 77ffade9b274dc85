package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

// Example writes to a stream and reads it to its end.
func Example() {
	ctx := context.Background()
	c, err := client.New("http://127.0.0.1:4437", client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.CloseIdleConnections()

	config := stream.Config{ContentType: "text/plain"}
	if _, err := c.Create(ctx, "greetings", client.CreateRequest{Config: config}); err != nil {
		log.Fatal(err)
	}
	_, err = c.Append(ctx, "greetings", &stream.AppendRequest{
		Records: []stream.Record{{Body: []byte("hello")}, {Body: []byte("world")}},
		// Tried again until it is answered, and written once.
		Producer: &stream.Producer{ID: "example", Epoch: 1, Seq: 0},
		Close:    true,
	})
	if err != nil {
		log.Fatal(err)
	}
	for chunk, err := range c.Tail(ctx, "greetings", client.TailRequest{}) {
		if err != nil {
			log.Fatal(err)
		}
		for _, record := range chunk.Records {
			fmt.Printf("%d %s\n", record.Offset, record.Body)
		}
	}
}
