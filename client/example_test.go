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

// ExampleClient_Create_fork edits a message of a chat: a fork keeps what came
// before it, and the chat stays as it was.
func ExampleClient_Create_fork() {
	ctx := context.Background()
	c, err := client.New("http://127.0.0.1:4437", client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.CloseIdleConnections()

	before := client.At(4) // the message that was wrong
	_, err = c.Create(ctx, "chats/42-edited", client.CreateRequest{
		Fork: &client.ForkRequest{From: "chats/42", At: &before},
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.Append(ctx, "chats/42-edited", &stream.AppendRequest{
		Records: []stream.Record{{Body: []byte("what I meant to ask")}},
	})
	if err != nil {
		log.Fatal(err)
	}
	info, err := c.Head(ctx, "chats/42-edited")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s began as %s up to %d\n", info.Name, info.Fork.From, info.Fork.At)
}
