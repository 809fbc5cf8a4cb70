"""Groups of every type beside Apache Kafka's: each scene is played on both brokers."""
